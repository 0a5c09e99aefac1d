-- The rights on single tables: run by laurel_owner after each laurel migrate up.

REVOKE ALL ON access_token, member_report, webhook FROM laurel_loader;
GRANT SELECT (id, types, board_no, periods_since_ms) ON webhook TO laurel_loader;
REVOKE DELETE ON audit_log FROM laurel_loader;
GRANT SELECT ON board, member, friendship, score_event, "commit", standing, sealed_period,
    sealed_entry, integrity_run, integrity_finding, job TO laurel_reader;
