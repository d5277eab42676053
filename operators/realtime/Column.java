package trijoin.realtime;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.*;
import org.apache.spark.unsafe.types.ByteArray;

/**
 * A packed column, and order keys of its values as in kernels/order_keys.py: {@code a <= b} in Spark's order implies
 * {@code key(a) <= key(b)}. An index only proposes rows, so a key may be that of several values.
 */
final class Column {
    private enum Read { BYTE, SHORT, INT, LONG, BOOLEAN, FLOAT, DOUBLE, DECIMAL, STRING, BINARY }

    private final int number;
    private final Read read;
    private final int precision;
    private final int scale;

    Column(StructType type, int number) {
        this.number = number;
        DataType own = type.apply(number).dataType();
        read = read(own);
        precision = own instanceof DecimalType of ? of.precision() : 0;
        scale = own instanceof DecimalType of ? of.scale() : 0;
    }

    /** All columns of a stream. */
    static Column[] of(StructType type) {
        Column[] columns = new Column[type.size()];
        for (int number = 0; number < columns.length; number++) {
            columns[number] = new Column(type, number);
        }
        return columns;
    }

    private static Read read(DataType type) {
        if (type instanceof ByteType) {
            return Read.BYTE;
        }
        if (type instanceof ShortType) {
            return Read.SHORT;
        }
        if (type instanceof IntegerType || type instanceof DateType || type instanceof YearMonthIntervalType) {
            return Read.INT;
        }
        if (type instanceof BooleanType) {
            return Read.BOOLEAN;
        }
        if (type instanceof FloatType) {
            return Read.FLOAT;
        }
        if (type instanceof DoubleType) {
            return Read.DOUBLE;
        }
        if (type instanceof DecimalType) {
            return Read.DECIMAL;
        }
        if (type instanceof StringType) {
            return Read.STRING;
        }
        return type instanceof BinaryType ? Read.BINARY : Read.LONG;
    }

    /** Whether keys are the bits of doubles, in the doubles' order. */
    boolean isReal() {
        return read == Read.FLOAT || read == Read.DOUBLE || read == Read.DECIMAL;
    }

    boolean isNull(InternalRow row) {
        return row.isNullAt(number);
    }

    /** The key of a value that is not NULL: of texts and binaries their first eight bytes. */
    long key(InternalRow row) {
        return switch (read) {
            case FLOAT, DOUBLE, DECIMAL -> key(real(row));
            case STRING -> Long.MIN_VALUE ^ row.getUTF8String(number).getPrefix();
            case BINARY -> Long.MIN_VALUE ^ ByteArray.getPrefix(row.getBinary(number));
            default -> whole(row);
        };
    }

    /** An integer, or what Spark keeps as such. */
    long whole(InternalRow row) {
        return switch (read) {
            case BYTE -> row.getByte(number);
            case SHORT -> row.getShort(number);
            case INT -> row.getInt(number);
            case BOOLEAN -> row.getBoolean(number) ? 1 : 0;
            default -> row.getLong(number);
        };
    }

    double real(InternalRow row) {
        return switch (read) {
            case FLOAT -> row.getFloat(number);
            case DECIMAL -> row.getDecimal(number, precision, scale).toDouble();
            default -> row.getDouble(number);
        };
    }

    /** The key of a double: -0.0 as 0.0, each NaN above infinity. */
    static long key(double value) {
        long bits = Double.doubleToLongBits(value + 0.0);
        return bits ^ ((bits >> 63) & Long.MAX_VALUE);
    }

    /** The sum of a key and an amount, held at the ends of the type. */
    static long plus(long key, long amount) {
        long sum = key + amount;
        return ((key ^ sum) & (amount ^ sum)) < 0 ? (key < 0 ? Long.MIN_VALUE : Long.MAX_VALUE) : sum;
    }
}
