package corelane.peers;

import java.net.URI;
import java.nio.file.Path;

/** The command line, which is that of all peers. */
record Options(URI address, Path folder) {
    private static final String USAGE = "--listen HOST:PORT --threads N [--static FOLDER]";

    /** A wrong command line ends the program. */
    static Options of(String[] arguments) {
        try {
            return parsed(arguments);
        } catch (IllegalArgumentException wrong) {
            System.err.println(wrong.getMessage());
            System.exit(64);
            throw wrong;
        }
    }

    private static Options parsed(String[] arguments) {
        // Spring's build runs the program without arguments.
        URI address = URI.create("http://127.0.0.1:8080");
        Path folder = null;
        for (int index = 0; index + 1 < arguments.length; index += 2) {
            String value = arguments[index + 1];
            switch (arguments[index]) {
                case "--listen" -> address = URI.create("http://" + value);
                case "--threads" -> check(Integer.parseInt(value));
                case "--static" -> folder = Path.of(value);
                default -> throw new IllegalArgumentException(arguments[index] + ": there are " + USAGE);
            }
        }
        if (arguments.length % 2 != 0) {
            throw new IllegalArgumentException(USAGE);
        }
        return new Options(address, folder);
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
