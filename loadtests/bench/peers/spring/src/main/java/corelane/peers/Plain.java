package corelane.peers;

import java.math.BigDecimal;
import java.util.regex.Pattern;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.core.io.Resource;
import org.springframework.http.HttpStatus;
import org.springframework.http.MediaType;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.server.ResponseStatusException;

/** The routes. */
@RestController
class Plain {
    static final String HELLO = "Hello, World!";

    private static final String TEXT = "text/plain;charset=UTF-8";
    private static final int LONGEST = 1000;
    private static final Pattern DECIMAL = Pattern.compile("-?[0-9]+(\\.[0-9]+)?");
    private static final BigDecimal HALF = new BigDecimal("0.5");

    private final Resource index;

    Plain(@Value("${spring.web.resources.static-locations}index.html") Resource index) {
        this.index = index;
    }

    @GetMapping(path = "/hello", produces = TEXT)
    String hello() {
        return HELLO;
    }

    @GetMapping(path = "/div/{n}", produces = TEXT)
    String div(@PathVariable String n) {
        return found(half(n));
    }

    @GetMapping(path = {"/work", "/work/{name}"}, produces = TEXT)
    String work(@RequestParam long ops) {
        return found(steps(ops));
    }

    private static String found(String reply) {
        if (reply == null) {
            throw new ResponseStatusException(HttpStatus.BAD_REQUEST);
        }
        return reply;
    }

    /** Half of n, exact for whole numbers and decimals; null if it is none. */
    static String half(String n) {
        if (n.length() > LONGEST || !DECIMAL.matcher(n).matches()) {
            return null;
        }
        return new BigDecimal(n).multiply(HALF).stripTrailingZeros().toPlainString();
    }

    /** Steps of a linear congruential generator: each needs the one before it. Null if ops is negative. */
    static String steps(long ops) {
        if (ops < 0) {
            return null;
        }
        long state = 1;
        for (long step = 0; step < ops; step++) {
            state = state * 6_364_136_223_846_793_005L + 1_442_695_040_888_963_407L;
        }
        return "%016x\n".formatted(state);
    }

    /** Spring Boot has an index for the root only; the files are served by its own handler. */
    @GetMapping(path = "/static/", produces = MediaType.TEXT_HTML_VALUE)
    Resource index() {
        return index;
    }
}
