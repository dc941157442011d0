"""The Java texts of what opens `s3a://` in Spark's tasks by the settings of the query at hand.

Hadoop keeps one connector for each bucket and process, made with the settings of whoever came
first: a second endpoint or key for a bucket of that name would silently read the first store. With
that cache off each opening of a file would make a connector of its own, with threads and
connections that nobody ends. So connectors are kept here: one for each bucket and set of settings,
as long as a task uses it, and the latest few beyond.
"""

from __future__ import annotations

KEPT_STORES_CLASS = "io.lakelog.spark.KeptStores"
STORE_CLASS = "io.lakelog.spark.StoreBySettings"

# A task holds what it has opened until it ends: Spark's readers close files, never stores. What is
# opened outside of tasks is only held by being used lately.
KEPT_STORES = """
package io.lakelog.spark;

import java.io.IOException;
import java.net.URI;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.util.ReflectionUtils;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskCompletionListener;

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
"""

# What Hadoop makes for each opening: cheap, and closing it closes nothing.
STORE = """
package io.lakelog.spark;

import java.io.IOException;
import java.math.BigInteger;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FilterFileSystem;

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
        TreeMap told = new TreeMap(settings.getPropsWithPrefix("fs.s3a."));
        told.put(" own", new TreeMap(settings.getPropsWithPrefix("lakelog.own.")));
        told.put(" keys", settings.get("hadoop.security.credential.provider.path", ""));
        String all = told.toString();
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
"""
