package corelane.peers;

import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.OffsetDateTime;
import java.util.UUID;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatus;
import org.springframework.http.ResponseEntity;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.PutMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestHeader;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RestController;

/** Projects by JDBC: a request has a thread, which waits for the database. */
@RestController
@RequestMapping("/projects")
class Projects implements SmartInitializingSingleton {
    private final JdbcClient database;
    private final Guard guard;

    Projects(JdbcClient database, Guard guard) {
        this.database = database;
        this.guard = guard;
    }

    /** Before Tomcat listens. */
    @Override
    public void afterSingletonsInstantiated() {
        if (guard.hasDatabase()) {
            database.sql(Project.TABLE).update();
        }
    }

    @PostMapping
    ResponseEntity<byte[]> create(
            @RequestHeader(name = HttpHeaders.AUTHORIZATION, required = false) String authorization,
            @RequestBody byte[] body) {
        guard.mayWrite(authorization);
        UUID id = Project.newId();
        String document = guard.document(body);
        return database
                .sql("INSERT INTO projects (id, document) VALUES (?, ?) RETURNING version, created, updated")
                .params(id, document)
                .query((row, number) -> project(id, row, document))
                .single()
                .replyToCreate();
    }

    @GetMapping("/{id}")
    ResponseEntity<byte[]> load(@PathVariable("id") String text) {
        guard.mayRead();
        UUID id = Guard.id(text);
        return database
                .sql("SELECT version, created, updated, document FROM projects WHERE id = ?")
                .param(id)
                .query((row, number) -> project(id, row, row.getString("document")))
                .optional()
                .orElseThrow(() -> new Refusal(HttpStatus.NOT_FOUND))
                .reply();
    }

    @PutMapping("/{id}")
    ResponseEntity<byte[]> save(
            @PathVariable("id") String text,
            @RequestHeader(name = HttpHeaders.AUTHORIZATION, required = false) String authorization,
            @RequestHeader(name = HttpHeaders.IF_MATCH, required = false) String ifMatch,
            @RequestBody byte[] body) {
        guard.mayWrite(authorization);
        UUID id = Guard.id(text);
        String document = guard.document(body);
        Long expected = Guard.expected(ifMatch);
        return database
                .sql("""
                        UPDATE projects SET document = ?, version = version + 1, updated = now()
                        WHERE id = ? AND (?::bigint IS NULL OR version = ?::bigint)
                        RETURNING version, created, updated""")
                .params(document, id, expected, expected)
                .query((row, number) -> project(id, row, document))
                .optional()
                .orElseThrow(() -> new Refusal(exists(id) ? HttpStatus.PRECONDITION_FAILED : HttpStatus.NOT_FOUND))
                .reply();
    }

    private boolean exists(UUID id) {
        return database.sql("SELECT version FROM projects WHERE id = ?").param(id).query(Long.class).optional().isPresent();
    }

    private static Project project(UUID id, ResultSet row, String document) throws SQLException {
        return new Project(
                id,
                row.getLong("version"),
                row.getObject("created", OffsetDateTime.class),
                row.getObject("updated", OffsetDateTime.class),
                document);
    }
}
