package tolerant;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsAction;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, without a process for every file.
 *
 * <p>Where Hadoop's native library is missing, as it is in PySpark, RawLocalFileSystem runs the program chmod for each file and
 * directory that it makes: half of the time of a small micro-batch. Java can set the same permissions itself.
 *
 * <p>Hadoop's own checksum files are not written: Spark keeps checksums of checkpoint files already.
 *
 * <p>`make jar` builds tolerant.jar, beside this file.
 */
public class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Raw());
        setWriteChecksum(false);
    }

    static class Raw extends RawLocalFileSystem {
        @Override
        public void setPermission(Path path, FsPermission permission) throws IOException {
            String letters = letters(permission.getUserAction())
                    + letters(permission.getGroupAction())
                    + letters(permission.getOtherAction());
            try {
                Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(letters));
            } catch (UnsupportedOperationException error) {
                super.setPermission(path, permission);
            }
        }

        private static String letters(FsAction action) {
            return action.SYMBOL;
        }
    }
}
