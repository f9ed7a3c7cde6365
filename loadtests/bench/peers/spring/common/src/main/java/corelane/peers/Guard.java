package corelane.peers;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.http.HttpStatus;
import org.springframework.stereotype.Component;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.json.JsonMapper;

/** What a request for projects must bring. */
@Component
class Guard {
    private static final Pattern TAG = Pattern.compile("\"(0|[1-9][0-9]{0,17})\"");
    private static final long NO_VERSION = -1;

    private final JsonMapper json;
    private final byte[] authorization;
    private final boolean database;

    Guard(JsonMapper json, @Value("${peers.token}") String token, @Value("${peers.database}") boolean database) {
        this.json = json;
        this.authorization = ("Bearer " + token).getBytes(StandardCharsets.UTF_8);
        this.database = database;
    }

    /** Without a database there are no projects. */
    boolean hasDatabase() {
        return database;
    }

    void mayRead() {
        if (!database) {
            throw new Refusal(HttpStatus.NOT_FOUND);
        }
    }

    /** Compared in constant time: how long it takes does not tell how much of a guess is right. */
    void mayWrite(String given) {
        mayRead();
        if (given == null || !MessageDigest.isEqual(authorization, given.getBytes(StandardCharsets.UTF_8))) {
            throw new Refusal(HttpStatus.UNAUTHORIZED);
        }
    }

    /** The text to store of a body: as it was sent, if it is a JSON object. */
    String document(byte[] body) {
        try {
            if (json.readTree(body).isObject()) {
                return new String(body, StandardCharsets.UTF_8).strip();
            }
        } catch (JacksonException wrong) {
            // Refused like what is no object.
        }
        throw new Refusal(HttpStatus.BAD_REQUEST);
    }

    static UUID id(String text) {
        try {
            return UUID.fromString(text);
        } catch (IllegalArgumentException wrong) {
            throw new Refusal(HttpStatus.NOT_FOUND);
        }
    }

    /** The version that may be changed; null for any. */
    static Long expected(String ifMatch) {
        if (ifMatch == null || ifMatch.equals("*")) {
            return null;
        }
        Matcher tag = TAG.matcher(ifMatch);
        return tag.matches() ? Long.valueOf(tag.group(1)) : NO_VERSION;
    }
}
