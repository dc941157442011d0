"""The Java text that writes the filters of a query down, for `filters.py` to read.

Only what is certain is written: a column as the relation has it, compared with constants of the
very type. Anything else (a cast, a function, a field of a struct, a text with a collation, a column
of `_metadata`, whose name may be that of a column of data) is `null`: nothing is known of it.
"""

from __future__ import annotations

# JSON: ["and", ...], ["or", ...], ["not", x], ["constant", true, false or null],
# [operator, column, type, value ...]; names, texts and
# bytes in hexadecimal, floats by their bits, dates and times in the unit that Spark keeps them in.
FILTERS = """
package io.lakelog.spark;

import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.types.*;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

public final class FilterText {
    private static final int MANY_VALUES = 10000;
    private static final String HEX = "0123456789abcdef";
    private static final Set TYPES = new HashSet();
    static {
        String[] names = {"boolean", "tinyint", "smallint", "int", "bigint", "float", "double",
            "binary", "date", "timestamp", "timestamp_ntz"};
        for (int i = 0; i < names.length; i++) { TYPES.add(names[i]); }
    }

    private final StringBuilder text = new StringBuilder();

    private FilterText() { }

    /** What rows have to meet, all of it. */
    public static String of(Seq filters) {
        FilterText found = new FilterText();
        found.all("and", filters.iterator());
        return found.text.toString();
    }

    private void all(String word, Iterator items) {
        text.append("[\\"").append(word).append('"');
        while (items.hasNext()) {
            text.append(',');
            put((Expression) items.next());
        }
        text.append(']');
    }

    private void put(Expression each) {
        if (each instanceof And) {
            all("and", each.children().iterator());
        } else if (each instanceof Or) {
            all("or", each.children().iterator());
        } else if (each instanceof Not) {
            all("not", each.children().iterator());
        } else {
            String leaf = leaf(each);
            text.append(leaf == null ? "null" : leaf);
        }
    }

    private static Expression child(Expression of, int number) {
        return (Expression) of.children().apply(number);
    }

    private static String leaf(Expression each) {
        if (each instanceof AttributeReference) { return start("true", each, "]"); }
        if (each instanceof Literal && each.dataType().equals(BooleanType$.MODULE$)) {
            return "[\\"constant\\"," + ((Literal) each).value() + "]";
        }
        if (each instanceof IsNull) { return start("null", child(each, 0), "]"); }
        if (each instanceof IsNotNull) { return start("filled", child(each, 0), "]"); }
        if (each instanceof In) {
            Iterator values = each.children().iterator();
            values.next();
            return among(child(each, 0), values, each.children().length() - 1);
        }
        if (each instanceof InSet) {
            return among(child(each, 0), ((InSet) each).hset().iterator(),
                ((InSet) each).hset().size());
        }
        if (each instanceof StartsWith) {
            return compared("begins", child(each, 0), child(each, 1));
        }
        String[] operators = {"=", "<=>", "<", "<=", ">", ">="};
        String[] turned = {"=", "<=>", ">", ">=", "<", "<="};
        Class[] classes = {EqualTo.class, EqualNullSafe.class, LessThan.class,
            LessThanOrEqual.class, GreaterThan.class, GreaterThanOrEqual.class};
        for (int i = 0; i < classes.length; i++) {
            if (classes[i].isInstance(each)) {
                Expression left = child(each, 0);
                Expression right = child(each, 1);
                return left instanceof Literal
                    ? compared(turned[i], right, left) : compared(operators[i], left, right);
            }
        }
        return null;
    }

    /** The beginning of a leaf: what is done with which column. */
    private static String start(String word, Expression column, String end) {
        if (!(column instanceof AttributeReference)) { return null; }
        AttributeReference found = (AttributeReference) column;
        DataType type = found.dataType();
        boolean isPlain = type.equals(StringType$.MODULE$) || type instanceof DecimalType
            || (!(type instanceof StringType) && TYPES.contains(type.catalogString()));
        // Ours are without metadata; Spark marks with it what is none of the file's columns, and
        // what is padded or compared in another way.
        if (!isPlain || !found.metadata().json().equals("{}")) { return null; }
        String name = hex(found.name().getBytes(StandardCharsets.UTF_8));
        return "[\\"" + word + "\\",\\"" + name + "\\",\\"" + type.catalogString() + "\\"" + end;
    }

    private static String compared(String word, Expression column, Expression constant) {
        if (!(constant instanceof Literal)) { return null; }
        Literal literal = (Literal) constant;
        if (literal.value() == null || !literal.dataType().equals(column.dataType())) {
            return null;
        }
        String value = value(literal.value(), literal.dataType());
        return value == null ? null : start(word, column, "," + value + "]");
    }

    /** A null among the values makes null of what would be false. */
    private static String among(Expression column, Iterator values, int count) {
        if (count > MANY_VALUES) { return null; }
        StringBuilder found = new StringBuilder();
        boolean hasNull = false;
        while (values.hasNext()) {
            Object each = values.next();
            if (each instanceof Expression) {
                if (!(each instanceof Literal)) { return null; }
                Literal literal = (Literal) each;
                if (!literal.dataType().equals(column.dataType())) { return null; }
                each = literal.value();
            }
            if (each == null) {
                hasNull = true;
                continue;
            }
            String value = value(each, column.dataType());
            if (value == null) { return null; }
            found.append(',').append(value);
        }
        String leaf = start("in", column, found.append(']').toString());
        return leaf == null || !hasNull ? leaf : "[\\"or\\"," + leaf + ",[\\"constant\\",null]]";
    }

    private static String value(Object value, DataType type) {
        if (value instanceof UTF8String) {
            return "\\"" + hex(((UTF8String) value).getBytes()) + "\\"";
        }
        if (value instanceof byte[]) { return "\\"" + hex((byte[]) value) + "\\""; }
        if (value instanceof Float || value instanceof Double) {
            double number = ((Number) value).doubleValue();
            return Long.toString(Double.doubleToRawLongBits(number));
        }
        if (value instanceof Decimal) {
            return "\\"" + ((Decimal) value).toJavaBigDecimal().toPlainString() + "\\"";
        }
        boolean isPlain = value instanceof Boolean || value instanceof Byte
            || value instanceof Short || value instanceof Integer || value instanceof Long;
        return isPlain ? value.toString() : null;
    }

    private static String hex(byte[] bytes) {
        StringBuilder found = new StringBuilder(2 * bytes.length);
        for (int i = 0; i < bytes.length; i++) {
            found.append(HEX.charAt((bytes[i] >> 4) & 15)).append(HEX.charAt(bytes[i] & 15));
        }
        return found.toString();
    }
}
"""
