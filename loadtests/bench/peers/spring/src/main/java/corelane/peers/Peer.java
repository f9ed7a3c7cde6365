package corelane.peers;

import java.net.URI;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;

/** The service on Tomcat. Its command line is that of all peers. */
@SpringBootApplication
class Peer {
    private static final String USAGE =
            "--listen HOST:PORT --threads N [--static FOLDER]";

    public static void main(String[] arguments) {
        SpringApplication.run(Peer.class, settings(arguments));
    }

    /** The command line as settings of Spring Boot; a wrong one ends the program. */
    private static String[] settings(String[] arguments) {
        List<String> settings = new ArrayList<>();
        try {
            if (arguments.length % 2 != 0) {
                throw new IllegalArgumentException(USAGE);
            }
            for (int index = 0; index < arguments.length; index += 2) {
                take(arguments[index], arguments[index + 1], settings);
            }
        } catch (IllegalArgumentException wrong) {
            System.err.println(wrong.getMessage());
            System.exit(64);
        }
        return settings.toArray(String[]::new);
    }

    private static void take(String name, String value, List<String> settings) {
        switch (name) {
            case "--listen" -> {
                URI address = URI.create("http://" + value);
                settings.add("--server.address=" + address.getHost());
                settings.add("--server.port=" + address.getPort());
            }
            case "--threads" -> check(Integer.parseInt(value));
            case "--static" -> settings.add(
                    "--spring.web.resources.static-locations=" + Path.of(value).toUri());
            default -> throw new IllegalArgumentException(name + ": there are " + USAGE);
        }
    }

    /** The JVM chooses its collector, its compilers and the libraries' threads by its processors. */
    private static void check(int wanted) {
        int processors = Runtime.getRuntime().availableProcessors();
        if (wanted != processors) {
            throw new IllegalArgumentException("--threads " + wanted + ": this JVM has " + processors
                    + ", give it -XX:ActiveProcessorCount=" + wanted);
        }
    }
}
