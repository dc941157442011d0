"""The Java text of what runs in Spark's tasks: the check of each file before its first row is read,
and what opens `s3a://` by the settings of the query at hand.

Hadoop keeps one connector for each bucket and process, made with the settings of whichever query
came first: a second endpoint or key for a bucket of that name would silently read the first store.
With that cache off each opening of a file would make a connector of its own, with threads and
connections that nobody ends. So connectors are kept here: one for each bucket and set of settings,
as long as a task uses it, and the latest few beyond.
"""

from __future__ import annotations

from .selection import GONE

TASK_CLASSES = tuple(
    f"io.lakelog.spark.{name}" for name in ("CheckedRead", "KeptStores", "StoreBySettings")
)
TASK_CODE = """
package io.lakelog.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.math.BigInteger;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Set;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FilterFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.util.ReflectionUtils;
import org.apache.spark.TaskContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.util.SerializableConfiguration;
import org.apache.spark.util.TaskCompletionListener;
import scala.Function1;
import scala.Option;

// Java serializes a class by name and serialVersionUID: raise it when the fields change, so that
// executors which have another CheckedRead refuse. A split carries the length of the file's footer
// and its digest, both 0: unknown; and the cut in words.
// Compiled in the driver, and sent to the executors in a jar; an executor that lacks the class
// fails. The checks are those of `scan`, exact size and digest of the footer, so that a file that
// replaced a live one is an error. For a missing file the error names the cut of the query, and
// what to do.
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

// A task holds what it has opened until it ends: Spark's readers close files, never stores. What is
// opened outside of tasks is only held by being used lately.
public final class KeptStores implements TaskCompletionListener {
    public static final String CONNECTOR = "org.apache.hadoop.fs.s3a.S3AFileSystem";
    public static final String SETTINGS = "lakelog.settings";
    private static final int IDLE = 8;
    // A store, and the tasks that use it; the longest unused first.
    private static final LinkedHashMap KEPT = new LinkedHashMap(16, 0.75f, true);
    private final Set users;

    private KeptStores(Set users) { this.users = users; }

    public static FileSystem take(URI place, Configuration settings) throws IOException {
        String key = place.getScheme() + "://" + place.getAuthority() + " "
            + settings.get(SETTINGS);
        synchronized (KEPT) {
            Object[] kept = (Object[]) KEPT.get(key);
            if (kept == null) {
                kept = new Object[] {made(place, settings), new HashSet()};
                KEPT.put(key, kept);
            }
            Set users = (Set) kept[1];
            TaskContext task = TaskContext.get();
            if (task != null && users.add(Long.valueOf(task.taskAttemptId()))) {
                task.addTaskCompletionListener(new KeptStores(users));
            }
            closeIdle();
            return (FileSystem) kept[0];
        }
    }

    public void onTaskCompletion(TaskContext task) {
        synchronized (KEPT) {
            users.remove(Long.valueOf(task.taskAttemptId()));
            closeIdle();
        }
    }

    private static FileSystem made(URI place, Configuration settings) throws IOException {
        Configuration own = new Configuration(settings);
        if (own.getBoolean("lakelog.own.credentials." + place.getAuthority(), false)) {
            // Hadoop would ask the session's key store first.
            own.unset("hadoop.security.credential.provider.path");
            own.unset("fs.s3a.security.credential.provider.path");
            own.unset("fs.s3a.bucket." + place.getAuthority()
                + ".security.credential.provider.path");
        }
        FileSystem store;
        try {
            store = (FileSystem) ReflectionUtils.newInstance(
                own.getClassByName(CONNECTOR), own);
        } catch (ClassNotFoundException error) {
            throw new IOException("hadoop-aws isn't on the class path of this executor", error);
        }
        try {
            store.initialize(place, own);
        } catch (IOException error) {
            store.close();
            throw error;
        }
        return store;
    }

    private static void closeIdle() {
        int idle = 0;
        for (Iterator each = KEPT.values().iterator(); each.hasNext();) {
            if (((Set) ((Object[]) each.next())[1]).isEmpty()) { idle++; }
        }
        for (Iterator each = KEPT.values().iterator(); idle > IDLE && each.hasNext();) {
            Object[] kept = (Object[]) each.next();
            if (!((Set) kept[1]).isEmpty()) { continue; }
            each.remove();
            idle--;
            try {
                ((FileSystem) kept[0]).close();
            } catch (IOException error) { }  // it is used no more
        }
    }
}

// What Hadoop makes for each opening: cheap, and closing it closes nothing.
public final class StoreBySettings extends FilterFileSystem {
    private static final String[] SCHEMES = {"s3", "s3a"};

    /** Make it open what S3A would open by these settings, which are a query's own. */
    public static void use(Configuration settings) throws Exception {
        boolean isFound = false;
        for (int i = 0; i < SCHEMES.length; i++) {
            if (!isS3A(SCHEMES[i], settings)) { continue; }
            isFound = true;
            String name = "fs." + SCHEMES[i] + ".impl";
            settings.set(name, StoreBySettings.class.getName());
            settings.setBoolean(name + ".disable.cache", true);
        }
        if (!isFound) { return; }
        TreeMap own = new TreeMap(settings.getPropsWithPrefix("fs.s3a."));
        own.put(" own", new TreeMap(settings.getPropsWithPrefix("lakelog.own.")));
        own.put(" keys", settings.get("hadoop.security.credential.provider.path", ""));
        String all = own.toString();
        byte[] digest = MessageDigest.getInstance("SHA-256").digest(
            all.getBytes(StandardCharsets.UTF_8));
        settings.set(KeptStores.SETTINGS, new BigInteger(1, digest).toString(16));
    }

    private static boolean isS3A(String scheme, Configuration settings) {
        try {
            Class found = FileSystem.getFileSystemClass(scheme, settings);
            return KeptStores.CONNECTOR.equals(found.getName());
        } catch (Exception error) {
            return false;  // nothing opens such URLs
        }
    }

    public void initialize(URI place, Configuration settings) throws IOException {
        this.fs = KeptStores.take(place, settings);
        super.initialize(place, settings);
    }

    public void close() { }
}
""".replace("@GONE@", GONE)
