//! `stats`: levels, logs and the drawn tree, through the real binary.
#![allow(clippy::disallowed_methods, reason = "these tests work on real files")]

use crate::common::{Place, braidb, braidb_with};

#[test]
fn stats_tell_the_levels_as_table_and_as_json() {
    let place = Place::new("stats");
    let db = &place.db();
    let rows: String = (0..1000).map(|row| format!("{row}\tvalue\n")).collect();
    braidb_with(&["load", db], rows.as_bytes()).exits(0);
    braidb(&["delete", db, "7"]).exits(0);
    let run = braidb(&["compact", db]).exits(0);
    assert!(run.text().starts_with("compacted in "), "{run:?}");

    let json: serde_json::Value =
        serde_json::from_slice(&braidb(&["stats", db, "--json"]).exits(0).out).unwrap();
    assert_eq!(json["families"][0]["name"], "default");
    let levels = json["families"][0]["levels"].as_array().unwrap();
    let sum = |field: &str| levels.iter().map(|level| level[field].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("entries"), sum("tombstones"), sum("tables")), (999, 0, 1), "{json:#}");
    assert!(json["families"][0]["written_bytes"].is_object(), "{json:#}");
    assert!(json["counts"]["gets"].is_u64() && json["write_amplification"].is_null());
    assert!(json["recovery"]["entries"].is_u64() && json["recovery"]["cut"].is_null(), "{json:#}");

    let run = braidb(&["stats", db]).exits(0);
    assert!(
        run.text().starts_with("opening replayed ") && run.text().contains("nothing was left out"),
        "{run:?}"
    );
    let all = run.text().lines().find(|line| line.contains("write amplification")).unwrap();
    assert!(all.ends_with(" -"), "{all}");
    let level = run.text().lines().find(|line| line.contains("default L")).unwrap();
    assert!(level.contains(" 999 "), "{level}");
}

#[test]
fn no_log_has_more_alive_than_it_holds() {
    let place = Place::new("alive");
    let db = &place.db();
    let alive = || -> Vec<(u64, u64, u64)> {
        let run = braidb(&["stats", db, "--json"]).exits(0);
        let json: serde_json::Value = serde_json::from_slice(&run.out).unwrap();
        let number = |log: &serde_json::Value, name: &str| log[name].as_u64().unwrap();
        let of = |log| (number(log, "bytes"), number(log, "live_bytes"), number(log, "live_entries"));
        json["logs"].as_array().unwrap().iter().map(of).filter(|log| log.2 > 0).collect()
    };
    // Small rows in large batches, which have one head for a thousand rows.
    let rows: String = (0..20_000).map(|row| format!("{row:05}\tv\n")).collect();
    braidb_with(&["load", db], rows.as_bytes()).exits(0);
    let logs = alive();
    let (bytes, live_bytes) = logs.iter().fold((0, 0), |sum, log| (sum.0 + log.0, sum.1 + log.1));
    assert!(live_bytes <= bytes && live_bytes * 100 >= bytes * 95, "{logs:?}");
    // One row a batch.
    for row in 0..3 {
        braidb(&["put", db, &format!("{row:05}"), "w"]).exits(0);
    }
    let logs = alive();
    assert!(logs.iter().all(|(bytes, live_bytes, _)| live_bytes <= bytes), "{logs:?}");
}

#[test]
fn stats_draw_the_tree() {
    let place = Place::new("tree");
    let db = &place.db();
    let rows: String = (0..1000).map(|row| format!("key\\t{row:04}\tvalue\n")).collect();
    braidb_with(&["load", db], rows.as_bytes()).exits(0);
    braidb(&["put", db, "k", "v", "--family", "other"]).exits(0);
    braidb(&["compact", db]).exits(0);

    let run = braidb(&["stats", db, "--guards"]).exits(0);
    let lines: Vec<&str> = run.text().lines().collect();
    assert!(lines[0].starts_with("default  ") && lines[0].ends_with(" in 1 level, 0 guards"), "{run:?}");
    assert!(lines[1].contains("1 cell, 1 run deep, 1 slice of 1 table, "), "{run:?}");
    assert!(lines[2].starts_with("  (start)  ") && lines[2].contains(" #"), "{run:?}");
    assert!(lines[3].starts_with("other  "), "{run:?}");

    let json: serde_json::Value =
        serde_json::from_slice(&braidb(&["stats", db, "--guards", "--json"]).exits(0).out).unwrap();
    assert_eq!(json[0]["levels"].as_array().unwrap().len(), 7);
    let levels = json[0]["levels"].as_array().unwrap().iter();
    let mut slices = levels.flat_map(|level| level["cells"][0]["runs"].as_array().unwrap());
    let slice = &slices.next().unwrap()["slices"][0];
    assert_eq!((slice["low"].as_str(), slice["high"].as_str()), (Some("key\\t0000"), Some("key\\t0999")));
    assert_eq!((slice["entries"].as_u64(), slice["tombstones"].as_u64()), (Some(1000), Some(0)));
    // One table moved down as it was, or `compact` merged several.
    assert!(["flush", "compact"].contains(&slice["reason"].as_str().unwrap()), "{slice}");
    assert!(slice["price_ns"].as_u64().unwrap() > 0 && slice["paid_ns"].as_u64() == Some(0), "{slice}");
    assert!(slices.next().is_none(), "{json:#}");
    braidb(&["stats", db, "--cells", "3"]).exits(2);
    braidb(&["stats", db, "--guards", "--cells", "0"]).exits(2);

    // A tree is drawn although a table in it is damaged.
    for entry in std::fs::read_dir(db).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "table") {
            let mut bytes = std::fs::read(&path).unwrap();
            let at = bytes.len() - 20;
            bytes[at] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }
    }
    let run = braidb(&["stats", db, "--guards"]).exits(0);
    assert!(run.text().contains("1 cell, 1 run deep, 1 slice of 1 table, "), "{run:?}");
    assert!(run.err.contains("without the reasons of its tables"), "{run:?}");
}

#[test]
fn stats_draw_leaves_and_value_files() {
    let place = Place::new("values");
    let db = &place.db();
    let options =
        braidb::Options::new().tuning(|tuning| tuning.separation_threshold(Some(100)).hot_keys_percent(0));
    let store = options.clone().open(db).unwrap();
    store.put("small", "v").unwrap();
    store.compact().unwrap();
    store.close().unwrap();
    braidb(&["stats", db, "--values"])
        .prints("the database has no value files; all its values lie in tables and logs\n");

    let store = options.open(db).unwrap();
    // The second compaction meets both versions of ten keys.
    for keys in [0..100, 90..120] {
        keys.for_each(|key| store.put(format!("{key:04}"), [b'v'; 200]).unwrap());
        store.compact().unwrap();
    }
    store.close().unwrap();
    let json: serde_json::Value =
        serde_json::from_slice(&braidb(&["stats", db, "--values", "--json"]).exits(0).out).unwrap();
    let (family, files) = (&json["families"][0], json["value_files"].as_array().unwrap());
    assert_eq!((family["leaves"].as_array().unwrap().len(), files.len()), (1, 2), "{json:#}");
    let expected = [(100 * 220, 90 * 220), (30 * 220, 30 * 220)];
    for ((file, extent), (records, live)) in
        files.iter().zip(family["leaves"][0]["extents"].as_array().unwrap()).zip(expected)
    {
        assert_eq!((&extent["value_file"], extent["live_bytes"].as_u64()), (&file["id"], Some(live)));
        let bytes = ["bytes", "live_bytes", "dead_bytes"].map(|field| file[field].as_u64().unwrap());
        assert_eq!(bytes, [30 + records, live, records - live]);
    }
    let [level, worst] = [&family["last_level"], &files[0]["id"]].map(|number| number.as_u64().unwrap());
    braidb(&["stats", db, "--values"]).prints(&format!(
        "\
default                   1 leaf in L{level}, 2.0 extents a leaf, 2 at most, 25.8 KiB alive
value files               2 of 28.0 KiB, 25.8 KiB alive, 2.1 KiB dead (7.7%)
  {worst:06}.values           21.5 KiB, 19.3 KiB alive, 2.1 KiB dead (10.0%)
"
    ));
    braidb(&["stats", db, "--values", "--guards"]).exits(2);
}
