-- The roles of a deployment, before its first start: run by a superuser, in the empty database.
-- Give each one a password with \password, or a certificate.

-- Owns the tables, and changes the schema: laurel migrate up, laurel backup apply.
CREATE ROLE laurel_owner LOGIN;
-- laurel serve, laurel worker, laurel token, laurel backup create.
CREATE ROLE laurel_server LOGIN;
-- Batch jobs: rebuild, diff, restore, archive, import.
CREATE ROLE laurel_loader LOGIN;
-- People and tools that only look.
CREATE ROLE laurel_reader LOGIN;

REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT CREATE ON SCHEMA public TO laurel_owner;
ALTER DEFAULT PRIVILEGES FOR ROLE laurel_owner IN SCHEMA public
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO laurel_server, laurel_loader;
ALTER DEFAULT PRIVILEGES FOR ROLE laurel_owner IN SCHEMA public
    GRANT USAGE, SELECT ON SEQUENCES TO laurel_server, laurel_loader;
