-- Text and not jsonb: what a client saved is given back byte for byte, and jsonb refuses \u0000.
CREATE TABLE projects (
    id uuid PRIMARY KEY,
    version bigint NOT NULL DEFAULT 1,
    created timestamptz NOT NULL DEFAULT now(),
    updated timestamptz NOT NULL DEFAULT now(),
    document text NOT NULL
);
