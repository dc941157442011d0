"""The Java text of what of a query's conditions may go to Spark's Parquet reader, which skips row
groups and pages by them.

What it skips is never looked at again, so a condition may only be handed down if it is true of all
rows that Spark's own would let through. Spark applies every condition to the rows once more:
handing down a wider one, or none, costs skipping and no row.
"""

from __future__ import annotations

# Not handed down as they are, for what is skipped by them holds rows that are asked for:
# - floats: bounds ignore NaN, which for Spark is greater than all else, and dictionaries tell -0.0
#   from 0.0;
# - decimals: the value of a condition overflows, or is an error, where a file has fewer digits;
# - times: the value is cut to milliseconds where a file has these, so bounds count as inside, and
#   what is negated isn't handed down;
# - dates: a day that the machine's time zone has left out comes as the next one, so a range is
#   wider by a day;
# - both before 1900, when calendars and zones move them further.
PUSHED_FILTERS = """
package io.lakelog.spark;

import java.sql.Date;
import java.sql.Timestamp;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.sources.And;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.IsNotNull;
import org.apache.spark.sql.sources.IsNull;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;
import org.apache.spark.sql.sources.Or;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Product;

public final class PushedFilters {
    private static final Set EXACT = new HashSet(Arrays.asList(new Object[] {
        "boolean", "tinyint", "smallint", "int", "bigint", "string", "binary"}));
    private static final LocalDateTime FIRST = LocalDateTime.of(1900, 2, 1, 0, 0);
    private final StructType schema;

    /** Of a relation with these columns. */
    public PushedFilters(StructType schema) { this.schema = schema; }

    /** What may be handed down of a condition, true wherever that is; null: nothing. */
    public Filter of(Filter filter) {
        if (filter instanceof And) {
            Filter left = of(((And) filter).left());
            Filter right = of(((And) filter).right());
            if (left == null || right == null) { return left == null ? right : left; }
            return new And(left, right);
        }
        if (filter instanceof Or) {
            Filter left = of(((Or) filter).left());
            Filter right = of(((Or) filter).right());
            return left == null || right == null ? null : new Or(left, right);
        }
        boolean isExact = true;
        String[][] columns = filter.v2references();
        for (int i = 0; i < columns.length; i++) {
            isExact = isExact && EXACT.contains(typeOf(columns[i]));
        }
        if (isExact || filter instanceof IsNull || filter instanceof IsNotNull) { return filter; }
        String type = columns.length == 1 ? typeOf(columns[0]) : "";
        return type.equals("date") || type.startsWith("timestamp") ? range(filter) : null;
    }

    /** Of a comparison with a day or a time. */
    private static Filter range(Filter filter) {
        boolean isSame = filter instanceof EqualTo || filter instanceof EqualNullSafe;
        boolean isLeast = filter instanceof GreaterThan || filter instanceof GreaterThanOrEqual;
        boolean isMost = filter instanceof LessThan || filter instanceof LessThanOrEqual;
        if (!isSame && !isLeast && !isMost) { return null; }
        Product of = (Product) filter; // all six are of a column and a value
        return range(
            (String) of.productElement(0), of.productElement(1), isSame || isLeast,
            isSame || isMost);
    }

    private static Filter range(String column, Object value, boolean isLeast, boolean isMost) {
        Object least = value;
        Object most = value;
        LocalDateTime at = null;
        if (value instanceof Instant) { at = utc((Instant) value); }
        if (value instanceof Timestamp) { at = utc(((Timestamp) value).toInstant()); }
        if (value instanceof LocalDateTime) { at = (LocalDateTime) value; }
        LocalDate day = value instanceof LocalDate ? (LocalDate) value : null;
        if (value instanceof Date) { day = ((Date) value).toLocalDate(); }
        if (day != null) {
            at = day.atStartOfDay();
            least = day.minusDays(1L);
            most = day.plusDays(1L);
        }
        if (at == null || at.isBefore(FIRST)) { return null; }
        Filter low = new GreaterThanOrEqual(column, least);
        Filter high = new LessThanOrEqual(column, most);
        return !isMost ? low : !isLeast ? high : new And(low, high);
    }

    private static LocalDateTime utc(Instant instant) {
        return LocalDateTime.ofInstant(instant, ZoneOffset.UTC);
    }

    private String typeOf(String[] name) {
        DataType type = schema;
        for (int i = 0; i < name.length; i++) {
            if (!(type instanceof StructType)) { return ""; }
            StructField[] fields = ((StructType) type).fields();
            type = null;
            for (int j = 0; j < fields.length; j++) {
                if (fields[j].name().equals(name[i])) { type = fields[j].dataType(); }
            }
        }
        return type == null ? "" : type.catalogString();
    }
}
"""
