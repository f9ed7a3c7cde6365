package corelane.peers;

import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;
import org.springframework.http.MediaType;
import org.springframework.http.ResponseEntity;

/** A project as it is stored. */
record Project(UUID id, long version, OffsetDateTime created, OffsetDateTime updated, String document) {
    static final String TABLE = """
            CREATE TABLE IF NOT EXISTS projects (
                id uuid PRIMARY KEY,
                version bigint NOT NULL DEFAULT 1,
                created timestamptz NOT NULL DEFAULT now(),
                updated timestamptz NOT NULL DEFAULT now(),
                document text NOT NULL
            )""";

    private static final DateTimeFormatter TIME =
            DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSSSSS'Z'").withZone(ZoneOffset.UTC);

    /** A UUID of version 7 (RFC 9562 section 5.7): new ones are neighbours in the index. */
    static UUID newId() {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        long high = System.currentTimeMillis() << 16 | 0x7000 | random.nextInt(0x1000);
        return new UUID(high, random.nextLong() >>> 2 | Long.MIN_VALUE);
    }

    ResponseEntity<byte[]> replyToCreate() {
        return shown(ResponseEntity.created(URI.create("/projects/" + id)));
    }

    ResponseEntity<byte[]> reply() {
        return shown(ResponseEntity.ok());
    }

    /** The document is put in as it is stored: to parse it and write it again takes longer. */
    private ResponseEntity<byte[]> shown(ResponseEntity.BodyBuilder reply) {
        String text = "{\"id\":\"" + id + "\",\"version\":" + version
                + ",\"created\":\"" + TIME.format(created) + "\",\"updated\":\"" + TIME.format(updated)
                + "\"," + document.substring(1);
        return reply.eTag("\"" + version + "\"")
                .contentType(MediaType.APPLICATION_JSON)
                .body(text.getBytes(StandardCharsets.UTF_8));
    }
}
