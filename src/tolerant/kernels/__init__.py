"""Building blocks of all cores: compilation, hash maps, random numbers, snapshots, versions, decaying widths."""
