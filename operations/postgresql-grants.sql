-- The rights on single tables: run by laurel_owner after each laurel migrate up.

REVOKE ALL ON access_token, member_report FROM laurel_loader;
REVOKE DELETE ON audit_log FROM laurel_loader;
GRANT SELECT ON board, member, friendship, score_event, "commit", standing, sealed_period,
    sealed_entry, integrity_run, integrity_finding, job TO laurel_reader;
