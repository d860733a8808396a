import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command line tools one after the other in one virtual machine.
 *
 * Each line of the input is a class and its arguments, separated by tabs. What the tool prints, on either
 * stream, is followed by a line "DONE" and the exit code.
 *
 * Arguments: BOOTSTRAP TIMEOUT_MS, which every tool is given.
 */
public final class GroupTools {
    private GroupTools() { }

    private static final class Ended extends RuntimeException {
        private final int code;

        Ended(int code) {
            this.code = code;
        }
    }

    public static void main(String[] args) throws Exception {
        System.setErr(System.out);
        Exit.setExitProcedure((code, message) -> {
            throw new Ended(code);
        });
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            List<String> words = new ArrayList<>(Arrays.asList(line.split("\t")));
            String tool = words.remove(0);
            words.addAll(0, List.of("--bootstrap-server", args[0], "--timeout", args[1]));
            int code = 0;
            try {
                Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) words.toArray(new String[0]));
            } catch (InvocationTargetException e) {
                if (e.getCause() instanceof Ended ended) {
                    code = ended.code;
                } else {
                    e.getCause().printStackTrace();
                }
            }
            System.out.println("\nDONE " + code);
            System.out.flush();
        }
    }
}
