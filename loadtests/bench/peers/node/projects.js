// Projects: JSON documents in PostgreSQL, by a pool of pg.

import { isUtf8 } from "node:buffer";
import { randomUUIDv7, timingSafeEqual } from "node:crypto";

import pg from "pg";

import { notFound, sendText } from "./plain.js";

const POOL = 8; // the same for all peers
const MOST_BYTES = 64 << 10; // as the reference service has it
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

const TABLE = `CREATE TABLE IF NOT EXISTS projects (
  id uuid PRIMARY KEY,
  version bigint NOT NULL DEFAULT 1,
  created timestamptz NOT NULL DEFAULT now(),
  updated timestamptz NOT NULL DEFAULT now(),
  document text NOT NULL)`;

// A statement with a name is prepared once on each connection.
const INSERT = {
  name: "insert",
  text: "INSERT INTO projects (id, document) VALUES ($1, $2) RETURNING version, created, updated",
};
const FIND = {
  name: "find",
  text: "SELECT version, created, updated, document FROM projects WHERE id = $1",
};
const UPDATE = {
  name: "update",
  text: `UPDATE projects SET document = $2, version = version + 1, updated = now()
    WHERE id = $1 AND ($3::bigint IS NULL OR version = $3) RETURNING version, created, updated`,
};
const VERSION = { name: "version", text: "SELECT version FROM projects WHERE id = $1" };

// Values stay the text that PostgreSQL sends: a Date has no microseconds.
const types = { getTypeParser: () => (value) => value };

export async function openProjects(connectionString, token) {
  const pool = new pg.Pool({ connectionString, max: POOL, options: "-c TimeZone=UTC" });
  await pool.query(TABLE);
  return new Projects(pool, Buffer.from(token));
}

class Projects {
  constructor(pool, token) {
    this.pool = pool;
    this.token = token;
  }

  answer(request, response, path) {
    this.route(request, response, path).catch((error) => {
      console.error(error);
      response.headersSent ? response.destroy() : sendText(response, 500, "the request failed\n");
    });
  }

  async route(request, response, path) {
    const id = path.slice("/projects/".length);
    if (request.method === "GET" && UUID.test(id)) {
      await this.load(response, id);
      return;
    }
    const body = await read(request);
    const creates = request.method === "POST" && path === "/projects";
    if (!creates && !(request.method === "PUT" && UUID.test(id))) {
      notFound(response);
    } else if (!this.accepts(request.headers.authorization)) {
      sendText(response, 401, "a bearer token is needed\n", { "WWW-Authenticate": "Bearer" });
    } else if (body.length > MOST_BYTES) {
      sendText(response, 413, "the document is too large\n");
    } else {
      const document = parse(body);
      if (document === undefined) {
        sendText(response, 400, "the body must be a JSON object\n");
      } else if (creates) {
        await this.create(response, document);
      } else {
        await this.save(response, id, document, request.headers["if-match"]);
      }
    }
  }

  accepts(field = "") {
    const given = Buffer.from(field.startsWith("Bearer ") ? field.slice("Bearer ".length) : "");
    return given.length === this.token.length && timingSafeEqual(given, this.token);
  }

  async query(statement, values) {
    const { rows } = await this.pool.query({ ...statement, values, types });
    return rows[0];
  }

  async create(response, document) {
    // Ids that begin with the time are inserted at the end of the index.
    const id = randomUUIDv7();
    const row = await this.query(INSERT, [id, document]);
    sendProject(response, 201, id, row, document, { Location: `/projects/${id}` });
  }

  async load(response, id) {
    const row = await this.query(FIND, [id]);
    if (row) {
      sendProject(response, 200, id, row, row.document);
    } else {
      notFound(response);
    }
  }

  async save(response, id, document, ifMatch) {
    const row = await this.query(UPDATE, [id, document, expected(ifMatch)]);
    if (row) {
      sendProject(response, 200, id, row, document);
      return;
    }
    const current = await this.query(VERSION, [id]);
    if (current) {
      sendText(response, 412, `the project's entity tag is "${current.version}"\n`);
    } else {
      notFound(response);
    }
  }
}

// The whole body, or as little of it as shows that it is too large.
async function read(request) {
  const chunks = [];
  let length = 0;
  for await (const chunk of request) {
    length += chunk.length;
    if (length <= MOST_BYTES + chunk.length) {
      chunks.push(chunk);
    }
  }
  return chunks.length === 1 ? chunks[0] : Buffer.concat(chunks);
}

// The text of a JSON object, as it was sent.
function parse(body) {
  const text = body.toString();
  try {
    const value = JSON.parse(text);
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject && isUtf8(body) ? text.trim() : undefined;
  } catch {
    return undefined;
  }
}

// The version that If-Match names: null for any, and one that no project has for a tag that is
// none of ours.
function expected(ifMatch) {
  if (ifMatch === undefined || ifMatch === "*") {
    return null;
  }
  return /^"([0-9]{1,18})"$/.exec(ifMatch)?.[1] ?? -1;
}

// The project's own members first, then the document as it is stored.
function sendProject(response, status, id, row, document, fields) {
  const { version, created, updated } = row;
  const comma = /^\{\s*\}/.test(document) ? "" : ",";
  const own = `{"id":"${id}","version":${version},"created":"${rfc3339(created)}","updated":"${rfc3339(updated)}"`;
  const body = own + comma + document.slice(1);
  response.writeHead(status, {
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(body),
    ETag: `"${version}"`,
    ...fields,
  });
  response.end(body);
}

// PostgreSQL's text of a time in UTC, 2026-01-02 03:04:05.6+00, in the form of RFC 3339.
function rfc3339(time) {
  const [date, clock] = time.slice(0, -"+00".length).split(" ");
  const [seconds, fraction = ""] = clock.split(".");
  return `${date}T${seconds}.${fraction.padEnd(6, "0")}Z`;
}
