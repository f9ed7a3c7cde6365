// Users' projects: documents of about 5,700 bytes, and the requests that create, load and save
// them.

import { check } from 'k6';
import http from 'k6/http';

import { seeded } from './random.js';
import { baseUrl, required } from './settings.js';

const SIZE = 5700;
const WORDS = ['lane', 'queue', 'review', 'drain', 'budget', 'Überblick', 'socket', 'release', 'draft'];
const JSON_TYPE = 'application/json';

/** Cached documents by user: drawing the words for each request would be most of k6's work. */
const drafts = new Map();

/** Returns a project's seeded text. Its revision is at the start and the end, so that a mixture is detected. */
function documentOf(user, revision) {
  if (!drafts.has(user)) {
    drafts.set(user, draft(user));
  }
  const { tasks, ...rest } = drafts.get(user);
  const check = { title: `Check of revision ${revision}`, done: false, notes: '' };
  return { ...rest, name: `Project ${user}, revision ${revision}`, tasks: [...tasks, check] };
}

function draft(user) {
  const random = seeded(user);
  const words = (count) => Array.from({ length: count }, () => WORDS[Math.floor(random() * WORDS.length)]).join(' ');
  const project = {
    description: words(90),
    status: ['planned', 'active', 'done'][Math.floor(random() * 3)],
    tags: [words(1), words(1), words(1)],
    tasks: Array.from({ length: 20 }, () => ({ title: words(4), done: random() < 0.5, notes: words(20) })),
  };
  // Name, revision and check add about 100 bytes.
  const missing = SIZE - 100 - JSON.stringify(project).length;
  project.tasks[0].notes += '.'.repeat(Math.max(0, missing));
  return project;
}

/** Creates projects, which requires a token. */
export class Projects {
  constructor() {
    this.token = required('TOKEN', 'projects are saved with a bearer token; make up keeps one in .run/default/token');
  }

  /** Creates a user's project; returns its ID, or '' after a failure. */
  create(user) {
    const reply = this.send('POST', '/projects', 'create', 201, documentOf(user, 0));
    const named = check(reply, { 'create: Location': ({ headers }) => /^\/projects\/./.test(headers.Location || '') }, { name: 'create' });
    return named ? reply.headers.Location.replace('/projects/', '') : '';
  }

  /** Loads a user's project, which must be complete and of the revision, if that is known. */
  load(id, user, revision) {
    const reply = this.send('GET', `/projects/${id}`, 'load', 200);
    check(reply, { 'load: what was saved': () => shows(reply, id, user, revision) }, { name: 'load' });
  }

  /** Saves a revision of a user's project. */
  save(id, user, revision) {
    const reply = this.send('PUT', `/projects/${id}`, 'save', 200, documentOf(user, revision));
    check(reply, { 'save: what was sent': () => shows(reply, id, user, revision) }, { name: 'save' });
  }

  remove(id) {
    this.send('DELETE', `/projects/${id}`, 'delete', 204);
  }

  send(method, path, name, status, project) {
    const reply = http.request(method, baseUrl + path, project ? JSON.stringify(project) : null, {
      headers: { Authorization: `Bearer ${this.token}`, ...(project ? { 'Content-Type': JSON_TYPE } : {}) },
      tags: { name },
      responseCallback: http.expectedStatuses(status),
      timeout: '30s',
    });
    check(reply, { [`${name}: status ${status}`]: () => reply.status === status }, { name });
    return reply;
  }
}

/** Whether a response contains a user's document, entirely in the revision that its name states. */
function shows(reply, id, user, revision) {
  const { id: own, version, created, updated, ...shown } = reply.json();
  const told = /, revision (\d+)$/.exec(shown.name);
  return own === id && told !== null && (revision === undefined || Number(told[1]) === revision)
    && same(shown, documentOf(user, Number(told[1])));
}

/** Whether two JSON values are equal, regardless of the order of members. */
function same(one, other) {
  if (typeof one !== 'object' || one === null || typeof other !== 'object' || other === null) {
    return one === other;
  }
  const keys = Object.keys(one);
  return keys.length === Object.keys(other).length && keys.every((key) => same(one[key], other[key]));
}
