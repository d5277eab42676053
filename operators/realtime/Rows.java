package trijoin.realtime;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.BiConsumer;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.Platform;

/**
 * The rows of a stream in a cell: in memory under their indexes, and what does not fit there as segments in Spark's state
 * store, which are read when a search may find something in them.
 */
final class Rows {
    /** What a row, and each index that it is in, take in memory beside the row itself, about. */
    private static final int ROW = 160, ENTRY = 140;

    /** Bytes of a segment; how many rows leave memory at once: a part of them, which ends soon and is worth a sort. */
    private static final int SEGMENT = 32 << 10, LEAST = 4 << 10, MOST = 64 << 10, PART = 16;

    /** Where rows outlive the task. */
    interface Durable {
        void put(long number, UnsafeRow row);

        void remove(long number);

        void putSegment(long number, byte[] rows);

        byte[] segment(long number);

        void removeSegment(long number);
    }

    /** A row in memory, and its number in the cell. */
    private record Stored(long number, UnsafeRow row) {}

    /** Rows in the store: by index the least and the greatest key, and the newest event time. */
    private record Segment(long number, int rows, int bytes, long[] least, long[] most, long newest) {}

    private final JoinPlan.Stream stream;
    private final Column[] indexed;
    private final Column time;
    private final int width;
    private final Map<Long, Stored> rows = new LinkedHashMap<>();
    private final List<TreeMap<Long, List<Stored>>> indexes = new ArrayList<>();
    private final TreeMap<Long, List<Stored>> times;
    private List<Segment> segments = new ArrayList<>();
    private long nextSegment;
    private long bytes;
    private long storedRows;
    private long storedBytes;
    private Durable durable;

    Rows(JoinPlan.Stream stream, Column[] columns) {
        this.stream = stream;
        width = columns.length;
        indexed = Arrays.stream(stream.indexed).mapToObj(number -> columns[number]).toArray(Column[]::new);
        time = stream.keepFor < 0 ? null : columns[stream.time];
        times = time == null ? null : new TreeMap<>();
        for (Column ignored : indexed) {
            indexes.add(new TreeMap<>());
        }
    }

    /** Each batch has a store of its own. */
    void keepIn(Durable durable) {
        this.durable = durable;
    }

    /** What the rows in memory take, about. */
    long bytes() {
        return bytes;
    }

    /** All rows, segments, and bytes of rows. */
    long[] kept() {
        return new long[] {rows.size() + storedRows, segments.size(), bytes + storedBytes};
    }

    void put(long number, UnsafeRow row) {
        durable.put(number, row);
        restore(number, row);
    }

    /** Take a row that is in the store. */
    void restore(long number, UnsafeRow row) {
        Stored stored = new Stored(number, row);
        rows.put(number, stored);
        bytes += size(row);
        each(stored, (index, key) -> index.computeIfAbsent(key, absent -> new ArrayList<>(1)).add(stored));
    }

    /** Take a segment that is in the store. */
    void restoreSegment(long number, byte[] packed) {
        nextSegment = Math.max(nextSegment, number + 1);
        Segment segment = described(number, packed);
        segments.add(segment);
        storedRows += segment.rows;
        storedBytes += segment.bytes;
    }

    private int size(UnsafeRow row) {
        return row.getSizeInBytes() + ROW + ENTRY * (indexed.length + (times == null ? 0 : 1));
    }

    /** Remove rows from memory; each list of rows with one key is gone through once, however many of them go. */
    private void remove(Collection<Stored> gone) {
        Set<Long> numbers = new HashSet<>();
        Map<TreeMap<Long, List<Stored>>, Set<Long>> keys = new IdentityHashMap<>();
        for (Stored stored : gone) {
            numbers.add(stored.number);
            rows.remove(stored.number);
            bytes -= size(stored.row);
            each(stored, (index, key) -> keys.computeIfAbsent(index, absent -> new HashSet<>()).add(key));
            durable.remove(stored.number);
        }
        keys.forEach((index, touched) -> touched.forEach(key -> {
            List<Stored> same = index.get(key);
            same.removeIf(stored -> numbers.contains(stored.number));
            if (same.isEmpty()) {
                index.remove(key);
            }
        }));
    }

    /** Call for each index that has a row, with its key there. */
    private void each(Stored stored, BiConsumer<TreeMap<Long, List<Stored>>, Long> call) {
        for (int number = 0; number < indexed.length; number++) {
            if (!indexed[number].isNull(stored.row)) {
                call.accept(indexes.get(number), indexed[number].key(stored.row));
            }
        }
        if (times != null) {
            call.accept(times, time.whole(stored.row));
        }
    }

    /** Forget the rows that no row after a watermark (microseconds) joins; return how many. */
    long expire(long watermark) {
        if (times == null) {
            return 0;
        }
        long last = Column.plus(watermark, -stream.keepFor);
        List<Stored> gone = new ArrayList<>();
        times.headMap(last, true).values().forEach(gone::addAll);
        remove(gone);
        long count = gone.size();
        List<Segment> left = new ArrayList<>();
        for (Segment one : segments) {
            if (one.newest <= last) {
                durable.removeSegment(one.number);
                count += one.rows;
                storedRows -= one.rows;
                storedBytes -= one.bytes;
            } else {
                left.add(one);
            }
        }
        segments = left;
        return count;
    }

    /** Let the oldest rows leave memory: sorted by the first index, so that a search reads few segments of them. */
    void spill() {
        int count = Math.max(LEAST, Math.min(rows.size() / PART, MOST));
        List<Stored> oldest = new ArrayList<>(rows.values().stream().limit(count).toList());
        if (indexed.length > 0) {
            oldest.sort((a, b) -> Long.compare(first(a), first(b)));
        }
        for (int from = 0; from < oldest.size();) {
            int size = 0;
            int to = from;
            while (to < oldest.size() && (to == from || size < SEGMENT)) {
                size += Long.BYTES + oldest.get(to++).row.getSizeInBytes();
            }
            byte[] packed = new byte[size];
            ByteBuffer into = ByteBuffer.wrap(packed).order(ByteOrder.nativeOrder());
            for (Stored one : oldest.subList(from, to)) {
                into.putLong(one.row.getSizeInBytes()).put(one.row.getBytes());
            }
            durable.putSegment(nextSegment, packed);
            restoreSegment(nextSegment, packed);
            from = to;
        }
        remove(oldest);
    }

    private long first(Stored stored) {
        return indexed[0].isNull(stored.row) ? Long.MIN_VALUE : indexed[0].key(stored.row);
    }

    private Segment described(long number, byte[] packed) {
        long[] least = new long[indexed.length];
        long[] most = new long[indexed.length];
        Arrays.fill(least, Long.MAX_VALUE);
        Arrays.fill(most, Long.MIN_VALUE);
        long newest = Long.MIN_VALUE;
        int count = 0;
        for (Iterator<UnsafeRow> all = unpacked(packed); all.hasNext(); count++) {
            UnsafeRow row = all.next();
            for (int index = 0; index < indexed.length; index++) {
                if (!indexed[index].isNull(row)) {
                    long key = indexed[index].key(row);
                    least[index] = Math.min(least[index], key);
                    most[index] = Math.max(most[index], key);
                }
            }
            newest = time == null ? newest : Math.max(newest, time.whole(row));
        }
        return new Segment(number, count, packed.length, least, most, newest);
    }

    private Iterator<UnsafeRow> unpacked(byte[] packed) {
        return new Iterator<>() {
            private int at;

            @Override
            public boolean hasNext() {
                return at < packed.length;
            }

            @Override
            public UnsafeRow next() {
                int size = (int) Platform.getLong(packed, Platform.BYTE_ARRAY_OFFSET + at);
                UnsafeRow row = new UnsafeRow(width);
                row.pointTo(packed, Platform.BYTE_ARRAY_OFFSET + at + Long.BYTES, size);
                at += Long.BYTES + size;
                return row;
            }
        };
    }

    /** All rows. */
    Iterator<UnsafeRow> all() {
        Iterator<UnsafeRow> here = new Mapped<>(rows.values().iterator(), Stored::row);
        return segments.isEmpty() ? here : new Chained<>(List.of(here, stored(-1, 0, 0)).iterator());
    }

    /** The rows whose keys in an index lie between two, ends included. */
    Iterator<UnsafeRow> between(int index, long first, long last) {
        TreeMap<Long, List<Stored>> keys = indexes.get(index);
        Iterator<Stored> found;
        if (first == last) {
            found = keys.getOrDefault(first, List.of()).iterator();
        } else if (first > last) {
            return List.<UnsafeRow>of().iterator();
        } else {
            found = new Chained<>(new Mapped<>(keys.subMap(first, true, last, true).values().iterator(), List::iterator));
        }
        Iterator<UnsafeRow> here = new Mapped<>(found, Stored::row);
        return segments.isEmpty() ? here : new Chained<>(List.of(here, stored(index, first, last)).iterator());
    }

    /** The rows in the store; of an index, -1 for all, those between two keys. */
    private Iterator<UnsafeRow> stored(int index, long first, long last) {
        Iterator<Segment> met = index < 0 ? segments.iterator()
            : segments.stream().filter(one -> one.least[index] <= last && one.most[index] >= first).iterator();
        Iterator<UnsafeRow> found = new Chained<>(new Mapped<>(met, one -> unpacked(durable.segment(one.number))));
        if (index < 0) {
            return found;
        }
        Column column = indexed[index];
        return new Chained<>(new Mapped<>(found, row -> {
            boolean within = !column.isNull(row) && column.key(row) >= first && column.key(row) <= last;
            return (within ? List.of(row) : List.<UnsafeRow>of()).iterator();
        }));
    }
}
