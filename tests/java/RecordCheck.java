import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordType;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Reads and writes group records with Kafka's own classes, one line of input for one of output.
 *
 * "read KEY VALUE": the bytes in hexadecimal ("-" for no value), read and written again.
 * "write TYPE VERSION JSON JSON": a key and a value as JSON, written in that value version.
 *
 * The types of Kafka's share coordinator have a log of their own there; here they count from 1000.
 */
public final class RecordCheck {
    private static final CoordinatorRecordSerde GROUPS = new GroupCoordinatorRecordSerde();
    private static final CoordinatorRecordSerde SHARE_STATE = new ShareCoordinatorRecordSerde();
    private static final short FIRST_OF_SHARE_STATE = 1000;
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split("\t");
            boolean reads = words[0].equals("read");
            short type = reads ? buffer(words[1]).getShort() : Short.parseShort(words[1]);
            short first = type < FIRST_OF_SHARE_STATE ? 0 : FIRST_OF_SHARE_STATE;
            CoordinatorRecord record = reads ? read(words, first) : written(words, first);
            System.out.println(text(record, first));
        }
    }

    private static CoordinatorRecordSerde serde(short first) {
        return first == 0 ? GROUPS : SHARE_STATE;
    }

    private static CoordinatorRecord read(String[] words, short first) {
        ByteBuffer value = words[2].equals("-") ? null : buffer(words[2]);
        ByteBuffer key = buffer(words[1]);
        return serde(first).deserialize(key.putShort(0, (short) (key.getShort(0) - first)), value);
    }

    private static ByteBuffer buffer(String hex) {
        return ByteBuffer.wrap(HexFormat.of().parseHex(hex));
    }

    private static CoordinatorRecord written(String[] words, short first) throws Exception {
        short type = (short) (Short.parseShort(words[1]) - first);
        short version = Short.parseShort(words[2]);
        ApiMessage key = parsed(newKey(type, first), (short) 0, words[3]);
        ApiMessage value = parsed(newValue(type, first), version, words[4]);
        return CoordinatorRecord.record(key, new ApiMessageAndVersion(value, version));
    }

    private static ApiMessage newKey(short type, short first) {
        return first == 0
            ? CoordinatorRecordType.fromId(type).newRecordKey()
            : org.apache.kafka.coordinator.share.generated.CoordinatorRecordType
                .fromId(type).newRecordKey();
    }

    private static ApiMessage newValue(short type, short first) {
        return first == 0
            ? CoordinatorRecordType.fromId(type).newRecordValue()
            : org.apache.kafka.coordinator.share.generated.CoordinatorRecordType
                .fromId(type).newRecordValue();
    }

    private static ApiMessage parsed(ApiMessage message, short version, String json)
            throws Exception {
        Class<?> converter = Class.forName(message.getClass().getName() + "JsonConverter");
        return (ApiMessage) converter.getMethod("read", JsonNode.class, short.class)
            .invoke(null, JSON.readTree(json), version);
    }

    private static String text(CoordinatorRecord record, short first) {
        byte[] value = serde(first).serializeValue(record);
        ByteBuffer key = ByteBuffer.wrap(serde(first).serializeKey(record));
        key.putShort(0, (short) (key.getShort(0) + first));
        return HexFormat.of().formatHex(key.array()) + " "
            + (value == null ? "-" : HexFormat.of().formatHex(value));
    }
}
