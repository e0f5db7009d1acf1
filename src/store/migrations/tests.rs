use super::*;

#[test]
fn the_steps_are_valid() {
    assert!(MIGRATIONS.validate().is_ok());
}

#[test]
fn a_skill_of_the_first_version_has_no_network_no_workspace_no_secrets_and_calls_no_skill() {
    let mut connection = Connection::open_in_memory().unwrap();
    MIGRATIONS.to_version(&mut connection, 1).unwrap();
    let insert = "INSERT INTO skills (id, owner, name, version, description, digest, schema, enabled, mode, tags,
        source_provider, grants, limits, frozen_limits, functions, imports, warnings, state, registered_by,
        manifest_digest, created_at, updated_at)
        VALUES (x'00', 'a', 'b', '1.0.0', '', x'00', '{}', 1, 'on', '[]', 'local', '{}', '{}', '{}', '[]', '[]',
        '[]', 'ready', 'k', x'00', 0, 0)";
    connection.execute(insert, []).unwrap();
    apply(&mut connection).unwrap();
    let columns = "SELECT frozen_network || frozen_secrets || frozen_skills || pinned || frozen_workspace || approval FROM skills";
    let frozen: String = connection.query_row(columns, [], |row| row.get(0)).unwrap();
    assert_eq!(frozen, r#"[][][][]"none""none""#);
}

#[test]
fn executions_of_the_first_version_are_there_in_the_second_ended_or_open_as_they_were() {
    let mut connection = Connection::open_in_memory().unwrap();
    MIGRATIONS.to_version(&mut connection, 1).unwrap();
    for (id, status) in [(1_u8, "success"), (2, "running"), (3, "running"), (4, "error")] {
        let insert = "INSERT INTO skill_executions (id, owner, status, skill_id, skill, function, digest, key_id, door,
            attempts, created_at, queue_us, fuel, memory_peak_bytes, egress_bytes, args_sha256, args_bytes, args_copy)
            VALUES (?1, 'a', ?2, x'00', 'b@1.0.0', 'run', x'00', 'k', 'http', 1, 5, 0, 7, 0, 0, x'00', 2, '{}')";
        connection.execute(insert, rusqlite::params![[id; 16], status]).unwrap();
    }
    apply(&mut connection).unwrap();
    let ids = |table: &str| -> String {
        let text =
            format!("SELECT group_concat(hex(substr(id, 1, 1)) || fuel) FROM (SELECT * FROM {table} ORDER BY id)");
        connection.query_row(&text, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(ids("ended_executions"), "017,047");
    assert_eq!(ids("skill_executions"), "017,020,030,047");
    let open: u32 = connection.query_row("SELECT count(*) FROM open_executions", [], |row| row.get(0)).unwrap();
    assert_eq!(open, 2);
}

#[test]
fn a_newer_schema_is_refused_with_advice() {
    let mut connection = Connection::open_in_memory().unwrap();
    connection.pragma_update(None, "user_version", 999).unwrap();
    let error = apply(&mut connection).unwrap_err();
    assert!(error.detail.contains("newer version"), "{error:?}");
}
