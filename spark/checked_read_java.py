"""The Java text of what checks a data file in the task that reads it, before a row of it is read.

It is compiled in the driver, as the file index is, and its class goes to the executors in a jar.
The checks are those of `scan`: the exact size, and the digest of the footer, so that a file that
took the place of a live one is an error. Of a file that is gone the error says which cut the query
reads, and what to do. An executor that lacks the class fails.
"""

from __future__ import annotations

from .selection import GONE

CHECKED_READ_CLASS = "io.lakelog.spark.CheckedRead"

# Java serializes a class by name and serialVersionUID: raise it when the fields change, so that
# executors which have another CheckedRead refuse. A split carries the length of the file's footer
# and its digest, both 0: unknown; and the cut in words.
CHECKED_READ = """
package io.lakelog.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.util.SerializableConfiguration;
import scala.Function1;
import scala.Option;

public final class CheckedRead extends scala.runtime.AbstractFunction1
    implements java.io.Serializable {
    public static final String FOOTER = "lakelog_footer";
    public static final String CUT = "lakelog_cut";
    private static final long serialVersionUID = 1L;
    private final Function1 read;
    private final Broadcast conf;

    public CheckedRead(Function1 read, Broadcast conf) {
        this.read = read;
        this.conf = conf;
    }

    public Object apply(Object split) {
        Object rows = null;
        try {
            check((PartitionedFile) split);
            rows = read.apply(split);
        } catch (Exception error) {
            boolean gone = error instanceof FileNotFoundException;
            Platform.throwException(gone ? gone((PartitionedFile) split) : error);
        }
        return rows;
    }

    private void check(PartitionedFile file) throws Exception {
        Configuration settings = ((SerializableConfiguration) conf.value()).value();
        // On the driver's own machine they may be the very object of the driver, which doesn't know
        // the classes that tasks have (`StoreBySettings`).
        settings.setClassLoader(CheckedRead.class.getClassLoader());
        Path path = file.toPath();
        FileSystem store = path.getFileSystem(settings);
        try {
            long size = store.getFileStatus(path).getLen();
            if (size != file.fileSize()) {
                throw damaged(path, size + " bytes, the log says " + file.fileSize());
            }
            Option known = file.otherConstantMetadataColumnValues().get(FOOTER);
            long[] footer = (long[]) known.get();
            if (footer[0] == 0L || footer[1] == 0L) { return; }
            boolean same = footer[0] <= size;
            if (same) {
                byte[] bytes = new byte[(int) footer[0]];
                FSDataInputStream input = store.open(path);
                try {
                    input.readFully(size - bytes.length, bytes);
                } finally {
                    input.close();
                }
                byte[] digest = MessageDigest.getInstance("SHA-256").digest(bytes);
                same = ByteBuffer.wrap(digest).getLong() == footer[1];
            }
            if (!same) {
                throw damaged(
                    path, "another footer than the log says: it was replaced, or damaged");
            }
        } finally {
            String scheme = path.toUri().getScheme();
            if (settings.getBoolean("fs." + scheme + ".impl.disable.cache", false)) {
                store.close();
            }
        }
    }

    private static IOException gone(PartitionedFile file) {
        Object cut = file.otherConstantMetadataColumnValues().get(CUT).get();
        return new IOException("ObjectNotFound: " + file.toPath() + " is gone. The query reads "
            + cut + ". @GONE@");
    }

    private static IOException damaged(Path path, String what) {
        return new IOException("CorruptObject: " + path + " has " + what
            + ". Restore the file from a copy, or read a point in time without it");
    }
}
""".replace("@GONE@", GONE)
