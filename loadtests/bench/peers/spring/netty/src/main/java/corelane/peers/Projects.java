package corelane.peers;

import io.r2dbc.spi.Readable;
import java.time.OffsetDateTime;
import java.util.UUID;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatus;
import org.springframework.http.ResponseEntity;
import org.springframework.r2dbc.core.DatabaseClient;
import org.springframework.r2dbc.core.DatabaseClient.GenericExecuteSpec;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.PutMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestHeader;
import org.springframework.web.bind.annotation.RequestMapping;
import org.springframework.web.bind.annotation.RestController;
import reactor.core.publisher.Mono;

/** Projects by R2DBC: no thread waits for the database. */
@RestController
@RequestMapping("/projects")
class Projects implements SmartInitializingSingleton {
    private final DatabaseClient database;
    private final Guard guard;

    Projects(DatabaseClient database, Guard guard) {
        this.database = database;
        this.guard = guard;
    }

    /** Before Netty listens. */
    @Override
    public void afterSingletonsInstantiated() {
        if (guard.hasDatabase()) {
            database.sql(Project.TABLE).then().block();
        }
    }

    @PostMapping
    Mono<ResponseEntity<byte[]>> create(
            @RequestHeader(name = HttpHeaders.AUTHORIZATION, required = false) String authorization,
            @RequestBody byte[] body) {
        guard.mayWrite(authorization);
        UUID id = Project.newId();
        String document = guard.document(body);
        return database
                .sql("INSERT INTO projects (id, document) VALUES ($1, $2) RETURNING version, created, updated")
                .bind("$1", id)
                .bind("$2", document)
                .map(row -> project(id, row, document))
                .one()
                .map(Project::replyToCreate);
    }

    @GetMapping("/{id}")
    Mono<ResponseEntity<byte[]>> load(@PathVariable("id") String text) {
        guard.mayRead();
        UUID id = Guard.id(text);
        return database
                .sql("SELECT version, created, updated, document FROM projects WHERE id = $1")
                .bind("$1", id)
                .map(row -> project(id, row, row.get("document", String.class)))
                .one()
                .switchIfEmpty(Mono.error(() -> new Refusal(HttpStatus.NOT_FOUND)))
                .map(Project::reply);
    }

    @PutMapping("/{id}")
    Mono<ResponseEntity<byte[]>> save(
            @PathVariable("id") String text,
            @RequestHeader(name = HttpHeaders.AUTHORIZATION, required = false) String authorization,
            @RequestHeader(name = HttpHeaders.IF_MATCH, required = false) String ifMatch,
            @RequestBody byte[] body) {
        guard.mayWrite(authorization);
        UUID id = Guard.id(text);
        String document = guard.document(body);
        Long expected = Guard.expected(ifMatch);
        GenericExecuteSpec update = database
                .sql("""
                        UPDATE projects SET document = $2, version = version + 1, updated = now()
                        WHERE id = $1 AND ($3::bigint IS NULL OR version = $3)
                        RETURNING version, created, updated""")
                .bind("$1", id)
                .bind("$2", document);
        update = expected == null ? update.bindNull("$3", Long.class) : update.bind("$3", expected);
        return update.map(row -> project(id, row, document))
                .one()
                .switchIfEmpty(Mono.defer(() -> notSaved(id)))
                .map(Project::reply);
    }

    /** Why there was nothing to change. */
    private Mono<Project> notSaved(UUID id) {
        return database
                .sql("SELECT version FROM projects WHERE id = $1")
                .bind("$1", id)
                .map(row -> HttpStatus.PRECONDITION_FAILED)
                .one()
                .defaultIfEmpty(HttpStatus.NOT_FOUND)
                .flatMap(status -> Mono.error(new Refusal(status)));
    }

    private static Project project(UUID id, Readable row, String document) {
        return new Project(
                id,
                row.get("version", Long.class),
                row.get("created", OffsetDateTime.class),
                row.get("updated", OffsetDateTime.class),
                document);
    }
}
