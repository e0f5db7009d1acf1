//! The one integration-test binary: the real program, the real database, real guests.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what is meant")]

/// Starting the program and talking to it.
mod support;

/// The main job: upload, run, find it again; and what bad input gets.
mod main_job;

/// Hostile guests: every limit bites, and the host is there afterwards.
mod limits;

/// What the engine is asked for: its pace.
mod engine;

/// Keys, and what other owners may see.
mod keys;

/// The audit's chain: exports, erasing, and ending a key with all that it brought.
mod audit;

/// Crashes and full disks: nothing acknowledged is lost.
mod recovery;

/// TLS, and what may listen without it.
mod tls;
mod tool_formats;
mod untaken;

/// `/metrics`.
mod metrics;

/// Interceptors.
mod interceptors;

/// How long results are kept.
mod retention;

/// Ending an execution from outside.
mod cancel;

/// Requests that come twice.
mod idempotency;

/// Runs that are tried again.
mod retries;

/// Runs that wait on their own, and runs that are watched.
mod modes;
/// Rates, budgets and quotas: what a key may start, use up and leave lying.
mod overload;

/// What owners use up and keep: `/api/usage`, and the quota of results.
mod usage;

/// Owners' files.
mod files;

/// The way out: guests that ask for something over the network.
mod egress;

/// Skills from elsewhere: URLs and registries.
mod sources;

/// Secrets: put into requests, and found nowhere else.
mod secrets;

/// Skills that are there without an upload.
mod catalogue;
/// The command line, as a process.
mod cli;
/// Skill folders, and what is told of their manifests.
mod folder;
/// The OpenAPI document against the server it describes.
mod openapi;
/// Zipped skill folders, and the text of skills.
mod zips;

/// Problems, the pages about them, and what every reply carries.
mod problems;

/// What the log says, and what never stands in it.
mod log_lines;

/// Clients that take their time.
mod slow_clients;

/// Hostile requests: bombs, floods, lies about length, and what is not text.
mod hostile_http;

/// More connections than there is room for.
mod component;
mod connections;

/// Seeds and sizes of randomised tests.
mod campaign;

/// Power cuts: what was acknowledged is on the disk.
mod power;

/// Components that are too much work to compile.
mod bombs;

/// Components that were damaged at random.
mod mutations;

/// The program killed at random moments, again and again.
mod kills;

/// The same under everything at once, seen from outside too.
mod mixed;

/// Backups, and what is restored from them.
mod backup;

/// Disks that take nothing for a while.
mod disk;

/// Hosts that stop while much is under way.
mod draining;

/// What a guest's answer must be like.
mod outputs;

/// What skills can be granted beside network and workspace.
mod powers;

/// Components whose functions have types of their own.
mod typed;

/// Programs and servers that were not written for this host.
mod shapes;

/// Skills as other languages' toolchains make them, some of them large.
mod languages;

/// Requests put together at random.
mod garbage;

/// Callers who leave in the middle.
mod leaving;

/// What is compiled anew, and what can go wrong with that.
mod readying;

/// Compile workers and what ties them to their host.
mod workers;

/// Changes to skills, one at a time and many at once; and how they are listed.
mod changes;

/// The data directory: who may read it, and whom it sends clients to.
mod data_dir;

/// Versions, aliases, approval, and damaged rows.
mod registry;

/// The host as a library.
mod library;

/// The Model Context Protocol, over HTTP and over lines; with clients that others wrote.
mod mcp;

/// What the README tells people to type.
mod readme;

/// Skills in containers.
mod containers;

/// Rules about the repository itself.
mod tidy;
