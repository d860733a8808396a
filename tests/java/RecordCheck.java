import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordType;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Reads and writes group records with Kafka's own classes, one line of input for one of output.
 *
 * "read KEY VALUE": the bytes in hexadecimal ("-" for no value), read and written again.
 * "write TYPE VERSION JSON JSON": a key and a value as JSON, written in that value version.
 */
public final class RecordCheck {
    private static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split("\t");
            System.out.println(text(words[0].equals("read") ? read(words) : written(words)));
        }
    }

    private static CoordinatorRecord read(String[] words) {
        ByteBuffer value = words[2].equals("-") ? null : buffer(words[2]);
        return SERDE.deserialize(buffer(words[1]), value);
    }

    private static ByteBuffer buffer(String hex) {
        return ByteBuffer.wrap(HexFormat.of().parseHex(hex));
    }

    private static CoordinatorRecord written(String[] words) throws Exception {
        CoordinatorRecordType type = CoordinatorRecordType.fromId(Short.parseShort(words[1]));
        short version = Short.parseShort(words[2]);
        ApiMessage key = parsed(type.newRecordKey(), (short) 0, words[3]);
        ApiMessage value = parsed(type.newRecordValue(), version, words[4]);
        return CoordinatorRecord.record(key, new ApiMessageAndVersion(value, version));
    }

    private static ApiMessage parsed(ApiMessage message, short version, String json)
            throws Exception {
        Class<?> converter = Class.forName(message.getClass().getName() + "JsonConverter");
        return (ApiMessage) converter.getMethod("read", JsonNode.class, short.class)
            .invoke(null, JSON.readTree(json), version);
    }

    private static String text(CoordinatorRecord record) {
        byte[] value = SERDE.serializeValue(record);
        return HexFormat.of().formatHex(SERDE.serializeKey(record)) + " "
            + (value == null ? "-" : HexFormat.of().formatHex(value));
    }
}
