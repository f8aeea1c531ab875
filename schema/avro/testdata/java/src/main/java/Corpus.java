import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.avro.Conversions;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;
import org.apache.avro.data.TimeConversions;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;

/**
 * Corpus prints 500 pairs of a writer's and a reader's schema, each with a payload of the writer, and the
 * answer of Java's Avro: one JSON object per line. A logicalType that is next to a type is one that Java
 * ignores; the answer to such a pair is the one to the same schema with the logicalType in its type.
 */
public final class Corpus {
  private static final Random random = new Random(38);
  private static int names;

  public static void main(String[] args) throws Exception {
    PrintStream out = new PrintStream(System.out, true, "UTF-8");
    for (int i = 0; i < 500; i++) {
      boolean beside = i % 4 == 3;
      names = 0;
      String writerType = type(2);
      names = 0;
      String readerType = random.nextInt(3) == 0 ? writerType : related(writerType);
      String more = random.nextInt(3) == 0 ? extra() : "";
      String writer = record(field("a", writerType, beside));
      String reader = record(field("a", readerType, beside) + more);
      String meantWriter = record(field("a", writerType, false));
      String meantReader = record(field("a", readerType, false) + more);
      pair(out, i, writer, reader, meantWriter, meantReader);
    }
  }

  private static String record(String fields) {
    return "{\"type\":\"record\",\"name\":\"R\",\"fields\":[" + fields + "]}";
  }

  /** field has its logicalType next to its type where it can, if beside is set. */
  private static String field(String name, String type, boolean beside) {
    String logical = "\\{\"type\":\"(int|long|bytes|string)\",(\"logicalType\".*)\\}";
    if (beside && type.matches(logical)) {
      return "{\"name\":\"" + name + "\"," + type.replaceFirst(logical, "\"type\":\"$1\",$2") + "}";
    }
    String union = "\\[\"null\",\\{\"type\":\"(int|long|bytes|string)\",(\"logicalType\"[^\\[\\]{}]*)\\}\\]";
    if (beside && type.matches(union)) {
      return "{\"name\":\"" + name + "\"," + type.replaceFirst(union, "\"type\":[\"null\",\"$1\"],$2") + "}";
    }
    return "{\"name\":\"" + name + "\",\"type\":" + type + "}";
  }

  private static String pick(String... of) {
    return of[random.nextInt(of.length)];
  }

  private static String logical(String base, String name) {
    return "{\"type\":\"" + base + "\",\"logicalType\":\"" + name + "\"}";
  }

  private static String decimal() {
    return "{\"type\":\"bytes\",\"logicalType\":\"decimal\",\"precision\":" + pick("9", "12") + ",\"scale\":"
        + pick("2", "2", "3") + "}";
  }

  private static String leaf() {
    switch (random.nextInt(4)) {
      case 0:
        return "\"" + pick("boolean", "int", "long", "float", "double", "string", "bytes") + "\"";
      case 1:
        return decimal();
      case 2:
        return logical("long", pick("timestamp-millis", "timestamp-micros", "local-timestamp-millis",
            "local-timestamp-micros", "time-micros"));
      default:
        return pick("\"string\"", "\"bytes\"", "\"int\"", "\"long\"", logical("int", "date"),
            logical("int", "time-millis"), logical("string", "uuid"),
            "{\"type\":\"enum\",\"name\":\"E\",\"symbols\":[\"A\",\"B\"]}",
            "{\"type\":\"enum\",\"name\":\"E\",\"symbols\":[\"A\",\"B\",\"C\"],\"default\":\"A\"}",
            "{\"type\":\"fixed\",\"name\":\"F\",\"size\":4}", "{\"type\":\"fixed\",\"name\":\"F\",\"size\":8}",
            "{\"type\":\"fixed\",\"name\":\"F\",\"size\":4,\"logicalType\":\"decimal\",\"precision\":6,\"scale\":2}");
    }
  }

  private static String type(int depth) {
    if (depth == 0) {
      return leaf();
    }
    switch (random.nextInt(8)) {
      case 0:
        return "{\"type\":\"array\",\"items\":" + type(depth - 1) + "}";
      case 1:
        return "{\"type\":\"map\",\"values\":" + type(depth - 1) + "}";
      case 2:
      case 3:
        return "[\"null\"," + leaf() + "]";
      case 4:
        return "{\"type\":\"record\",\"name\":\"N" + names++ + "\",\"fields\":[{\"name\":\"x\",\"type\":"
            + type(depth - 1) + "}]}";
      default:
        return leaf();
    }
  }

  /** related is a type that has a part of another kind, or one more alternative. */
  private static String related(String type) {
    String[][] swaps = {{"timestamp-millis", "timestamp-micros"}, {"timestamp-micros", "timestamp-millis"},
        {"\"scale\":2", "\"scale\":3"}, {"\"int\"", "\"long\""}, {"\"int\"", "\"double\""},
        {"\"long\"", "\"float\""}, {"\"long\"", "\"double\""}, {"\"float\"", "\"double\""},
        {"\"string\"", "\"bytes\""}, {"\"bytes\"", "\"string\""}, {"\"long\"", "\"int\""},
        {"\"A\",\"B\"]", "\"A\",\"B\",\"C\"]"}, {"\"A\",\"B\",\"C\"]", "\"A\",\"B\"]"}, {"\"date\"", "\"x-date\""},
        {"\"null\",", "\"null\",\"string\","}};
    switch (random.nextInt(5)) {
      case 0:
        return type.startsWith("[") ? leaf() : "[\"null\"," + type + "]";
      case 1:
        if (type.equals("\"string\"") || type.equals("\"bytes\"")) {
          return pick(decimal(), "[\"null\"," + decimal() + "]", logical("string", "uuid"));
        }
        if (type.contains("\"decimal\"") && !type.contains("fixed")) {
          return type.replaceFirst("\\{\"type\":\"bytes\",\"logicalType\":\"decimal\"[^}]*\\}", "\"string\"");
        }
        if (type.contains("\"logicalType\"") && !type.contains("fixed")) {
          return type.replaceFirst("\\{\"type\":\"(\\w+)\",\"logicalType\"[^}]*\\}", "\"$1\"");
        }
        return leaf();
      case 2:
        return leaf();
      default:
        for (int tries = 0; tries < 40; tries++) {
          String[] swap = swaps[random.nextInt(swaps.length)];
          String other = type.replace(swap[0], swap[1]);
          if (!other.equals(type)) {
            try {
              new Schema.Parser().parse(record(field("a", other, false)));
              return other;
            } catch (RuntimeException e) {
              continue;
            }
          }
        }
        return type;
    }
  }

  /** extra is a field that the writer does not have. */
  private static String extra() {
    return "," + pick("{\"name\":\"b\",\"type\":\"string\",\"default\":\"d\"}",
        "{\"name\":\"b\",\"type\":\"long\"}",
        "{\"name\":\"b\",\"type\":[\"null\",\"long\"],\"default\":null}",
        "{\"name\":\"b\",\"type\":{\"type\":\"long\",\"logicalType\":\"timestamp-millis\"},\"default\":1700000000000}",
        "{\"name\":\"b\",\"type\":[{\"type\":\"long\",\"logicalType\":\"timestamp-micros\"},\"null\"],\"default\":1700000000000000}",
        "{\"name\":\"b\",\"type\":{\"type\":\"int\",\"logicalType\":\"date\"},\"default\":19000}",
        "{\"name\":\"b\",\"type\":{\"type\":\"bytes\",\"logicalType\":\"decimal\",\"precision\":9,\"scale\":2},\"default\":\"\\u0001\\u00ff\"}",
        "{\"name\":\"b\",\"type\":{\"type\":\"bytes\",\"logicalType\":\"decimal\",\"precision\":9,\"scale\":2},\"default\":\"123.45\"}",
        "{\"name\":\"b\",\"type\":{\"type\":\"array\",\"items\":\"int\"},\"default\":[1,2]}",
        "{\"name\":\"b\",\"type\":{\"type\":\"enum\",\"name\":\"D\",\"symbols\":[\"A\",\"B\"]},\"default\":\"B\"}");
  }

  /** value is one of a schema, as it is on the wire. */
  private static Object value(Schema s) {
    switch (s.getType()) {
      case NULL:
        return null;
      case BOOLEAN:
        return random.nextBoolean();
      case INT:
        return s.getLogicalType() == null ? random.nextInt(2000) - 1000 : random.nextInt(80_000_000) / 4000;
      case LONG:
        if (s.getLogicalType() == null) {
          return (long) random.nextInt(2_000_000) - 1_000_000;
        }
        return s.getLogicalType().getName().startsWith("time-") ? random.nextInt(80_000_000)
            : 1_700_000_000_000L + random.nextInt(1_000_000);
      case FLOAT:
        return (random.nextInt(400) - 200) / 4f;
      case DOUBLE:
        return (random.nextInt(400) - 200) / 4d;
      case STRING:
        if (s.getLogicalType() != null) {
          return "6ba7b810-9dad-11d1-80b4-00c04fd430" + (10 + random.nextInt(80));
        }
        return pick("", "a", "123.45", "Skald");
      case BYTES:
        return ByteBuffer.wrap(new BigInteger(20, random).toByteArray());
      case FIXED:
        byte[] fixed = new byte[s.getFixedSize()];
        fixed[fixed.length - 1] = (byte) random.nextInt(100);
        return new GenericData.Fixed(s, fixed);
      case ENUM:
        return new GenericData.EnumSymbol(s, s.getEnumSymbols().get(random.nextInt(s.getEnumSymbols().size())));
      case ARRAY:
        List<Object> list = new ArrayList<>();
        for (int i = random.nextInt(3); i > 0; i--) {
          list.add(value(s.getElementType()));
        }
        return list;
      case MAP:
        Map<String, Object> map = new TreeMap<>();
        for (int i = random.nextInt(3); i > 0; i--) {
          map.put("k" + i, value(s.getValueType()));
        }
        return map;
      case UNION:
        return value(s.getTypes().get(random.nextInt(4) == 0 ? 0 : s.getTypes().size() - 1));
      default:
        GenericRecord record = new GenericData.Record(s);
        for (Schema.Field f : s.getFields()) {
          record.put(f.name(), value(f.schema()));
        }
        return record;
    }
  }

  private static GenericData converting() {
    GenericData data = new GenericData();
    data.addLogicalTypeConversion(new Conversions.DecimalConversion());
    data.addLogicalTypeConversion(new TimeConversions.DateConversion());
    data.addLogicalTypeConversion(new TimeConversions.TimeMillisConversion());
    data.addLogicalTypeConversion(new TimeConversions.TimeMicrosConversion());
    data.addLogicalTypeConversion(new TimeConversions.TimestampMillisConversion());
    data.addLogicalTypeConversion(new TimeConversions.TimestampMicrosConversion());
    data.addLogicalTypeConversion(new TimeConversions.LocalTimestampMillisConversion());
    data.addLogicalTypeConversion(new TimeConversions.LocalTimestampMicrosConversion());
    return data;
  }

  private static String nanos(long seconds, int nanos) {
    return "t:" + BigInteger.valueOf(seconds).multiply(BigInteger.valueOf(1_000_000_000L))
        .add(BigInteger.valueOf(nanos));
  }

  private static String hex(byte[] bytes) {
    StringBuilder out = new StringBuilder();
    for (byte b : bytes) {
      out.append(String.format("%02x", b));
    }
    return out.toString();
  }

  /** text is a value as the test of Skald writes it, too. */
  private static String text(Object v) {
    if (v == null || v instanceof Boolean || v instanceof Integer || v instanceof Long) {
      return String.valueOf(v);
    } else if (v instanceof Float || v instanceof Double) {
      BigDecimal d = new BigDecimal(((Number) v).doubleValue());
      return "f:" + (d.signum() == 0 ? "0" : d.stripTrailingZeros().toPlainString());
    } else if (v instanceof BigDecimal) {
      BigDecimal d = (BigDecimal) v;
      return "d:" + (d.signum() == 0 ? "0" : d.stripTrailingZeros().toPlainString());
    } else if (v instanceof Instant) {
      return nanos(((Instant) v).getEpochSecond(), ((Instant) v).getNano());
    } else if (v instanceof LocalDateTime) {
      Instant at = ((LocalDateTime) v).toInstant(ZoneOffset.UTC);
      return nanos(at.getEpochSecond(), at.getNano());
    } else if (v instanceof LocalDate) {
      return nanos(((LocalDate) v).toEpochDay() * 86400, 0);
    } else if (v instanceof LocalTime) {
      return "n:" + ((LocalTime) v).toNanoOfDay();
    } else if (v instanceof ByteBuffer) {
      byte[] bytes = new byte[((ByteBuffer) v).remaining()];
      ((ByteBuffer) v).duplicate().get(bytes);
      return "x:" + hex(bytes);
    } else if (v instanceof GenericData.Fixed) {
      return "x:" + hex(((GenericData.Fixed) v).bytes());
    } else if (v instanceof GenericRecord) {
      Map<String, String> fields = new TreeMap<>();
      for (Schema.Field f : ((GenericRecord) v).getSchema().getFields()) {
        fields.put(f.name(), text(((GenericRecord) v).get(f.pos())));
      }
      return fields.toString();
    } else if (v instanceof Map) {
      Map<String, String> sorted = new TreeMap<>();
      ((Map<?, ?>) v).forEach((k, one) -> sorted.put(k.toString(), text(one)));
      return sorted.toString();
    } else if (v instanceof List) {
      List<String> all = new ArrayList<>();
      ((List<?>) v).forEach(one -> all.add(text(one)));
      return all.toString();
    }
    return "s:" + v;
  }

  private static String quoted(String s) {
    StringBuilder out = new StringBuilder("\"");
    for (char c : s.toCharArray()) {
      if (c == '"' || c == '\\') {
        out.append('\\').append(c);
      } else if (c < 32 || c > 126) {
        out.append(String.format("\\u%04x", (int) c));
      } else {
        out.append(c);
      }
    }
    return out.append('"').toString();
  }

  private static void pair(PrintStream out, int id, String writer, String reader, String meantWriter,
      String meantReader) throws Exception {
    Schema w = new Schema.Parser().parse(meantWriter);
    Schema r = new Schema.Parser().parse(meantReader);
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    BinaryEncoder to = EncoderFactory.get().binaryEncoder(bytes, null);
    new GenericDatumWriter<Object>(w, new GenericData()).write(value(w), to);
    to.flush();
    String got;
    try {
      got = "value " + text(new GenericDatumReader<Object>(w, r, converting()).read(null,
          DecoderFactory.get().binaryDecoder(bytes.toByteArray(), null)));
    } catch (RuntimeException e) {
      got = "refused";
    }
    boolean compatible = SchemaCompatibility.checkReaderWriterCompatibility(r, w)
        .getType() == SchemaCompatibility.SchemaCompatibilityType.COMPATIBLE;
    out.println("{\"id\":" + id + ",\"writer\":" + quoted(writer) + ",\"reader\":" + quoted(reader) + ",\"data\":\""
        + hex(bytes.toByteArray()) + "\",\"compatible\":" + compatible + ",\"java\":" + quoted(got) + "}");
  }
}
