package tolerant;

import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.api.java.UDF2;

/**
 * True of any two rows, unless the task that joins them has been cancelled.
 *
 * <p>Spark interrupts the thread of a task that it cancels, and a join that only works in memory never looks: its task goes on
 * until it is done, and keeps its core. The joins of a view have this among their conditions, with the weights of both rows, so
 * that Spark has to ask for each pair of rows.
 */
public class Running implements UDF2<Long, Long, Boolean> {
    @Override
    public Boolean call(Long left, Long right) {
        TaskContext task = TaskContext.get();
        if (task != null && task.isInterrupted()) {
            throw new TaskKilledException("the push took too long");
        }
        return true;
    }
}
