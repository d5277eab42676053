package trijoin.realtime;

import java.io.Serializable;

/**
 * A join as its cells know it: which rows are kept for how long, and how a row looks for its partners. Plain data; the
 * driver writes it as JSON (compile/realtime.py), and columns are numbers of a stream's packed columns.
 */
public final class JoinPlan implements Serializable {
    private static final long serialVersionUID = 1L;

    /** By rank. */
    public Stream[] streams;

    /** By the rank of a row that comes: the other streams, in the order in which it probes them. */
    public Step[][] orders;

    /** How many cells there are. */
    public int cells;

    /** How many bytes of rows the cells of an executor keep in memory together; 0: two fifths of its heap. */
    public long memory;

    /** How late rows are told apart in reports: microseconds behind the watermark, in order. */
    public long[] lateness = {};

    /** What is kept of a stream's rows. */
    public static final class Stream implements Serializable {
        private static final long serialVersionUID = 1L;

        /** Its alias, and what it reads, for reports. */
        public String name;

        public String reads;

        /** Whether conditions on this alias drop some of its rows before. */
        public boolean filtered;

        /** The column with the event time in microseconds, -1 if it has none. */
        public int time = -1;

        /** For how many microseconds of event time a row is kept, -1 for ever. */
        public long keepFor = -1;

        /** The columns of which there is an index. */
        public int[] indexed = {};
    }

    /** A stream that is probed with the rows that are joined already. */
    public static final class Step implements Serializable {
        private static final long serialVersionUID = 1L;

        public int rank;

        /** How candidates are found; null where all rows are. */
        public Search search;

        /** What a candidate has to keep. */
        public Check[] checks = {};
    }

    /** The keys of an index between two bounds, which move with a value of a joined row. */
    public static final class Search implements Serializable {
        private static final long serialVersionUID = 1L;

        /** The number of the index among those of the probed stream. */
        public int index;

        /** Where the value is. */
        public int source;

        public int column;

        /** How far the keys may lie from the value: at least, and at most; null where that side is open. */
        public Double least;

        public Double most;

        /** The same in integers, where the column has such. */
        public Long leastWhole;

        public Long mostWhole;

        /** Whether a key that is NaN fits too. */
        public boolean nan;
    }

    /** One of three: a difference of integers, an expression that Spark decides, or an OR of such. */
    public static final class Check implements Serializable {
        private static final long serialVersionUID = 1L;

        public Difference difference;

        /** The number of an expression. */
        public int condition = -1;

        /** Branches, each an AND. */
        public Check[][] any;

        /** Whether none of the branches may be true; one that is NULL is not. */
        public boolean negated;
    }

    /** {@code least <= value of left - value of right <= most}, computed as if integers had no end. */
    public static final class Difference implements Serializable {
        private static final long serialVersionUID = 1L;

        /** The rank and the column of the minuend. */
        public int left;

        public int leftColumn;

        /** Those of the subtrahend. */
        public int right;

        public int rightColumn;

        /** Null: that side is open. */
        public Long least;

        public Long most;

        /** The range of the difference's type, where leaving it is an error; null elsewhere. */
        public Long lowest;

        public Long highest;

        /** What the query says, for that error. */
        public String sql = "";
    }
}
