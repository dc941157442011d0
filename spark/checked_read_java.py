"""The Java text of what checks a data file in the task that reads it, before a row of it is read.

It is compiled in the driver, as the file index is, and its class goes to the executors in a jar.
The checks are those of `scan`: the exact size, and the digest of the footer, so that a file that
took the place of a live one is an error. An executor that lacks the class fails.
"""

from __future__ import annotations

CHECKED_READ_CLASS = "io.lakelog.spark.CheckedRead"

# Java serializes a class by name and serialVersionUID: raise it when the fields change, so that
# executors which have another CheckedRead refuse. A split carries the length of the file's footer
# and its digest; both 0: unknown.
CHECKED_READ = """
package io.lakelog.spark;

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
    private static final long serialVersionUID = 1L;
    private final Function1 read;
    private final Broadcast conf;

    public CheckedRead(Function1 read, Broadcast conf) {
        this.read = read;
        this.conf = conf;
    }

    public Object apply(Object split) {
        try {
            check((PartitionedFile) split);
        } catch (Exception error) {
            Platform.throwException(error);
        }
        return read.apply(split);
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

    private static IOException damaged(Path path, String what) {
        return new IOException("CorruptObject: " + path + " has " + what
            + ". Restore the file from a copy, or read a point in time without it");
    }
}
"""
