package main

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// poolSize is the most connections, the same for all peers.
	poolSize = 8
	// mostBytes of a document, as the reference service has it.
	mostBytes = 64 << 10

	table = `CREATE TABLE IF NOT EXISTS projects (
		id uuid PRIMARY KEY,
		version bigint NOT NULL DEFAULT 1,
		created timestamptz NOT NULL DEFAULT now(),
		updated timestamptz NOT NULL DEFAULT now(),
		document text NOT NULL)`
	insert = `INSERT INTO projects (id, document) VALUES ($1, $2) RETURNING version, created, updated`
	find   = `SELECT version, created, updated, document FROM projects WHERE id = $1`
	update = `UPDATE projects SET document = $2, version = version + 1, updated = now()
		WHERE id = $1 AND ($3::bigint IS NULL OR version = $3) RETURNING version, created, updated`
	versionOf = `SELECT version FROM projects WHERE id = $1`
)

// projects are JSON documents in PostgreSQL. The pool prepares each statement once on each
// connection, as pgx does by default.
type projects struct {
	pool  *pgxpool.Pool
	token []byte
}

type project struct {
	id               uuid.UUID
	version          int64
	created, updated time.Time
	document         []byte
}

func open(ctx context.Context, url, token string) (*projects, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = poolSize
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, table); err != nil {
		return nil, err
	}
	return &projects{pool, []byte(token)}, nil
}

func (p *projects) register(routes *http.ServeMux) {
	routes.HandleFunc("POST /projects", p.authorized(p.create))
	routes.HandleFunc("GET /projects/{id}", p.load)
	routes.HandleFunc("PUT /projects/{id}", p.authorized(p.save))
}

// authorized lets a request with the token through.
func (p *projects) authorized(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		given, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !isBearer || subtle.ConstantTimeCompare([]byte(given), p.token) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
			return
		}
		next(w, r)
	}
}

func (p *projects) create(w http.ResponseWriter, r *http.Request) {
	document, ok := read(w, r)
	if !ok {
		return
	}
	// Ids that begin with the time are inserted at the end of the index.
	id, err := uuid.NewV7()
	if err != nil {
		fail(w, err)
		return
	}
	made := project{id: id, document: document}
	row := p.pool.QueryRow(r.Context(), insert, id, string(document))
	if err := row.Scan(&made.version, &made.created, &made.updated); err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Location", "/projects/"+id.String())
	made.write(w, http.StatusCreated)
}

func (p *projects) load(w http.ResponseWriter, r *http.Request) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	found := project{id: id}
	row := p.pool.QueryRow(r.Context(), find, id)
	if err := row.Scan(&found.version, &found.created, &found.updated, &found.document); err != nil {
		fail(w, err)
		return
	}
	found.write(w, http.StatusOK)
}

func (p *projects) save(w http.ResponseWriter, r *http.Request) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	document, ok := read(w, r)
	if !ok {
		return
	}
	saved := project{id: id, document: document}
	row := p.pool.QueryRow(r.Context(), update, id, string(document), expected(r.Header.Get("If-Match")))
	err = row.Scan(&saved.version, &saved.created, &saved.updated)
	if errors.Is(err, pgx.ErrNoRows) {
		p.unchanged(w, r, id)
		return
	}
	if err != nil {
		fail(w, err)
		return
	}
	saved.write(w, http.StatusOK)
}

// unchanged tells why a save changed nothing.
func (p *projects) unchanged(w http.ResponseWriter, r *http.Request, id uuid.UUID) {
	var version int64
	if err := p.pool.QueryRow(r.Context(), versionOf, id).Scan(&version); err != nil {
		fail(w, err)
		return
	}
	http.Error(w, "the project's entity tag is "+tag(version), http.StatusPreconditionFailed)
}

// expected is the version that If-Match names, nil for any, and one that no project has for a tag
// that is none of ours.
func expected(ifMatch string) *int64 {
	if ifMatch == "" || ifMatch == "*" {
		return nil
	}
	version, err := strconv.ParseInt(strings.Trim(ifMatch, `"`), 10, 64)
	if err != nil {
		version = -1
	}
	return &version
}

// read gives the document of a request: a JSON object, as it was sent.
func read(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBytes))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return nil, false
	}
	document := bytes.TrimSpace(body)
	var members map[string]json.RawMessage
	if err := json.Unmarshal(document, &members); err != nil || members == nil {
		http.Error(w, "the body must be a JSON object", http.StatusBadRequest)
		return nil, false
	}
	return document, true
}

// write replies with the project: its own members first, then the document as it is stored.
func (p *project) write(w http.ResponseWriter, status int) {
	const micros = `2006-01-02T15:04:05.000000Z`
	reply := make([]byte, 0, len(p.document)+160)
	reply = append(reply, `{"id":"`...)
	reply = append(reply, p.id.String()...)
	reply = append(reply, `","version":`...)
	reply = strconv.AppendInt(reply, p.version, 10)
	reply = append(reply, `,"created":"`...)
	reply = p.created.UTC().AppendFormat(reply, micros)
	reply = append(reply, `","updated":"`...)
	reply = p.updated.UTC().AppendFormat(reply, micros)
	reply = append(reply, '"')
	if rest := bytes.TrimSpace(p.document[1:]); rest[0] != '}' {
		reply = append(reply, ',')
	}
	reply = append(reply, p.document[1:]...)
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("ETag", tag(p.version))
	// Beyond 2 KiB net/http sends chunks to who does not name the length.
	header.Set("Content-Length", strconv.Itoa(len(reply)))
	w.WriteHeader(status)
	w.Write(reply)
}

func tag(version int64) string {
	return strconv.Quote(strconv.FormatInt(version, 10))
}

func fail(w http.ResponseWriter, err error) {
	if errors.Is(err, pgx.ErrNoRows) {
		http.Error(w, "there is no project with this id", http.StatusNotFound)
		return
	}
	http.Error(w, err.Error(), http.StatusInternalServerError)
}
