/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * All tables in one SQLite database, with views for common questions (docs/export.md).
 *
 * SQLite writes at places of its own choice, an output may be a pipe, and the database has no path: so
 * it is made in an unlinked temporary file, through a small VFS that knows only this file, and copied
 * out when it is whole. There is no journal, for no other process sees the file.
 */
#include "export/formats.h"
#include "export/out.h"
#include "export/rows.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* At offset 68 of the file: "plx1". */
#define APPLICATION_ID 0x706c7831
#define VFS_NAME "pollux-fd"

struct sqlite {
	sqlite3 *db;
	sqlite3_stmt *insert[TABLE_N];
	uint64_t n_rows;
	struct error *err;
};

/* ---- a VFS of one file ---- */

struct fd_file {
	sqlite3_file base;
	int fd;
};

static int file_close(sqlite3_file *f)
{
	(void)f; /* the descriptor is the export's */
	return SQLITE_OK;
}

static int file_read(sqlite3_file *f, void *to, int n, sqlite3_int64 at)
{
	int fd = ((struct fd_file *)f)->fd, done = 0;

	while (done < n) {
		ssize_t got = pread(fd, (char *)to + done, (size_t)(n - done), at + done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return SQLITE_IOERR_READ;
		if (got == 0) {
			memset((char *)to + done, 0, (size_t)(n - done));
			return SQLITE_IOERR_SHORT_READ;
		}
		done += (int)got;
	}
	return SQLITE_OK;
}

static int file_write(sqlite3_file *f, const void *from, int n, sqlite3_int64 at)
{
	int fd = ((struct fd_file *)f)->fd, done = 0;

	while (done < n) {
		ssize_t put = pwrite(fd, (const char *)from + done, (size_t)(n - done), at + done);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return put < 0 && errno == ENOSPC ? SQLITE_FULL : SQLITE_IOERR_WRITE;
		done += (int)put;
	}
	return SQLITE_OK;
}

static int file_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	return ftruncate(((struct fd_file *)f)->fd, size) < 0 ? SQLITE_IOERR_TRUNCATE : SQLITE_OK;
}

static int file_size(sqlite3_file *f, sqlite3_int64 *ret)
{
	struct stat st;

	if (fstat(((struct fd_file *)f)->fd, &st) < 0)
		return SQLITE_IOERR_FSTAT;
	*ret = st.st_size;
	return SQLITE_OK;
}

static int file_no_op(sqlite3_file *f, int what)
{
	(void)f;
	(void)what;
	return SQLITE_OK;
}

static int file_not_locked(sqlite3_file *f, int *ret)
{
	(void)f;
	*ret = 0;
	return SQLITE_OK;
}

static int file_control(sqlite3_file *f, int op, void *arg)
{
	(void)f;
	(void)op;
	(void)arg;
	return SQLITE_NOTFOUND;
}

static int file_zero(sqlite3_file *f)
{
	(void)f;
	return 0;
}

static const sqlite3_io_methods file_methods = {
	.iVersion = 1,
	.xClose = file_close,
	.xRead = file_read,
	.xWrite = file_write,
	.xTruncate = file_truncate,
	.xSync = file_no_op,
	.xFileSize = file_size,
	.xLock = file_no_op,
	.xUnlock = file_no_op,
	.xCheckReservedLock = file_not_locked,
	.xFileControl = file_control,
	.xSectorSize = file_zero,
	.xDeviceCharacteristics = file_zero,
};

/* The main database is the descriptor; anything else (a file for sorting) is not needed and refused. */
static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *ret_flags)
{
	(void)name;
	f->pMethods = NULL;
	if (!(flags & SQLITE_OPEN_MAIN_DB))
		return SQLITE_CANTOPEN;
	f->pMethods = &file_methods;
	((struct fd_file *)f)->fd = *(const int *)vfs->pAppData;
	if (ret_flags)
		*ret_flags = flags;
	return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
	(void)vfs;
	(void)name;
	(void)sync;
	return SQLITE_OK;
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret)
{
	(void)vfs;
	(void)name;
	(void)flags;
	*ret = 0;
	return SQLITE_OK;
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *name, int n, char *ret)
{
	(void)vfs;
	sqlite3_snprintf(n, ret, "%s", name);
	return SQLITE_OK;
}

static int vfs_randomness(sqlite3_vfs *vfs, int n, char *ret)
{
	(void)vfs;
	memset(ret, 0, (size_t)n); /* nothing here is secret: the same trace, the same file */
	return n;
}

static int vfs_sleep(sqlite3_vfs *vfs, int us)
{
	(void)vfs;
	(void)us;
	return 0;
}

static int vfs_time(sqlite3_vfs *vfs, double *ret)
{
	(void)vfs;
	*ret = 0;
	return SQLITE_OK;
}

static int vfs_last_error(sqlite3_vfs *vfs, int n, char *ret)
{
	(void)vfs;
	(void)n;
	(void)ret;
	return errno;
}

/* ---- the database ---- */

static int failed(struct sqlite *s, const char *what)
{
	int code = s->db ? sqlite3_errcode(s->db) : SQLITE_NOMEM;

	return error_set(s->err, code == SQLITE_FULL ? -ENOSPC : -EIO, "cannot %s: SQLite: %s",
			 what, s->db ? sqlite3_errmsg(s->db) : "out of memory");
}

static int run(struct sqlite *s, const char *sql)
{
	return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0
								       : failed(s, "make tables");
}

static int make_table(struct sqlite *s, enum table table)
{
	const struct table_type *type = &row_tables[table];
	_cleanup_buf_ struct buf create = BUF_INIT, insert = BUF_INIT;

	buf_printf(&create, "CREATE TABLE %s (", type->name);
	buf_printf(&insert, "INSERT INTO %s VALUES (", type->name);
	for (unsigned i = 0; i < type->n_columns; i++) {
		buf_printf(&create, "%s\"%s\" %s NOT NULL", i ? ", " : "", type->columns[i].name,
			   type->columns[i].text ? "TEXT" : "INTEGER");
		buf_str(&insert, i ? ",?" : "?");
	}
	buf_str(&create, ") STRICT");
	buf_str(&insert, ")");
	if (buf_failed(&create) || buf_failed(&insert))
		return error_set(s->err, -ENOMEM, "out of memory");
	TRY(run(s, create.data));
	return sqlite3_prepare_v2(s->db, insert.data, -1, &s->insert[table], NULL) == SQLITE_OK
		       ? 0
		       : failed(s, "make tables");
}

static const char *const views[] = {
	/* the table of a report */
	"CREATE VIEW families AS SELECT family, role, t.kind, count(*) AS tasks,"
	" sum(\"end\" = 'alive') AS alive,"
	" (SELECT count(*) FROM polls p WHERE p.kind = t.kind) AS polls,"
	" (SELECT coalesce(sum(duration_ns), 0) FROM polls p WHERE p.kind = t.kind) AS poll_ns,"
	" (SELECT coalesce(max(duration_ns), 0) FROM polls p WHERE p.kind = t.kind) AS "
	"longest_poll_ns,"
	" (SELECT coalesce(sum(duration_ns), 0) FROM waits w WHERE w.kind = t.kind"
	"  AND state = 'waiting') AS waiting_ns,"
	" (SELECT coalesce(sum(duration_ns), 0) FROM waits w WHERE w.kind = t.kind"
	"  AND state = 'scheduled') AS scheduled_ns"
	" FROM tasks t GROUP BY t.kind ORDER BY poll_ns DESC",
	"CREATE VIEW longest_polls AS SELECT duration_ns, time_ns, family, handler, task, thread,"
	" blocked_ns, place FROM polls WHERE measured ORDER BY duration_ns DESC",
	"CREATE VIEW waits_by_place AS SELECT family, handler, place, awaits, count(*) AS waits,"
	" sum(duration_ns) AS waiting_ns, max(duration_ns) AS longest_ns FROM waits"
	" WHERE state = 'waiting' GROUP BY family, handler, place, awaits ORDER BY waiting_ns DESC",
	"CREATE VIEW blocking_calls AS SELECT family, handler, call, count(*) AS calls,"
	" sum(duration_ns) AS blocked_ns, max(duration_ns) AS longest_ns FROM blocking"
	" WHERE keeps_worker GROUP BY family, handler, call ORDER BY blocked_ns DESC",
	NULL,
};

static int make_tables(struct sqlite *s)
{
	_cleanup_buf_ struct buf pragmas = BUF_INIT;

	buf_printf(
		&pragmas,
		"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -16384;"
		"PRAGMA temp_store = MEMORY; PRAGMA application_id = %d; PRAGMA user_version = %d;"
		"BEGIN",
		APPLICATION_ID, ROWS_VERSION);
	if (buf_failed(&pragmas))
		return error_set(s->err, -ENOMEM, "out of memory");
	TRY(run(s, pragmas.data));
	for (enum table t = 0; t < TABLE_N; t++)
		TRY(make_table(s, t));
	for (size_t i = 0; views[i]; i++)
		TRY(run(s, views[i]));
	return 0;
}

static int on_row(void *ctx, enum table table, const struct row_cell *cells)
{
	struct sqlite *s = ctx;
	sqlite3_stmt *insert = s->insert[table];

	s->n_rows++;
	for (unsigned i = 0; i < row_tables[table].n_columns; i++) {
		int r = cells[i].text ? sqlite3_bind_text(insert, (int)i + 1, cells[i].text, -1,
							  SQLITE_STATIC)
				      : sqlite3_bind_int64(insert, (int)i + 1, cells[i].number);
		if (r != SQLITE_OK)
			return failed(s, "write a row");
	}
	if (sqlite3_step(insert) != SQLITE_DONE || sqlite3_reset(insert) != SQLITE_OK)
		return failed(s, "write a row");
	return 0;
}

static int copy_out(int fd, FILE *file, uint64_t *ret_bytes, struct error *err)
{
	struct out o = {0};
	int r = out_init(&o, file);

	if (r < 0)
		return error_set(err, r, "out of memory");
	for (off_t at = 0; r == 0;) {
		char *room = out_room(&o);
		ssize_t n = pread(fd, room, OUT_ROOM_BYTES, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			r = error_sys(err, -errno, "cannot read a temporary file");
		if (n <= 0)
			break;
		out_used(&o, room + n);
		at += n;
		r = o.error;
	}
	*ret_bytes = o.bytes;
	r = out_end(&o, r, err);
	out_done(&o);
	return r;
}

static int make_database(struct sqlite *s, struct trace_reader *reader,
			 const struct export_options *opt)
{
	int r;

	if (sqlite3_open_v2("trace", &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
			    VFS_NAME) != SQLITE_OK)
		return failed(s, "make a database");
	TRY(make_tables(s));
	r = rows_make(reader, opt, on_row, s, s->err);
	/* A trace that broke off is there up to that point. */
	if (sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
		return failed(s, "write the tables");
	return r;
}

static int write_through(struct sqlite *s, int fd, struct trace_reader *reader,
			 const struct export_options *opt)
{
	const sqlite3_vfs vfs = {.iVersion = 1,
				 .szOsFile = sizeof(struct fd_file),
				 .mxPathname = 64,
				 .zName = VFS_NAME,
				 .pAppData = &fd,
				 .xOpen = vfs_open,
				 .xDelete = vfs_delete,
				 .xAccess = vfs_access,
				 .xFullPathname = vfs_full_path,
				 .xRandomness = vfs_randomness,
				 .xSleep = vfs_sleep,
				 .xCurrentTime = vfs_time,
				 .xGetLastError = vfs_last_error};
	sqlite3_vfs own = vfs;

	if (sqlite3_vfs_register(&own, 0) != SQLITE_OK)
		return failed(s, "start");
	int r = make_database(s, reader, opt);
	for (enum table t = 0; t < TABLE_N; t++)
		sqlite3_finalize(s->insert[t]);
	sqlite3_close(s->db);
	s->db = NULL;
	sqlite3_vfs_unregister(&own);
	return r;
}

static int sqlite_write(struct trace_reader *reader, const struct export_options *opt, FILE *file,
			struct export_summary *ret_summary, struct error *err)
{
	struct sqlite s = {.err = err};
	const char *dir = getenv("TMPDIR");
	_cleanup_close_ int fd = file_temporary(dir && *dir ? dir : "/tmp");
	uint64_t bytes = 0;

	if (fd < 0)
		return error_sys(err, fd, "cannot make a temporary file");
	int r = write_through(&s, fd, reader, opt);
	if (r == 0)
		r = copy_out(fd, file, &bytes, err);
	*ret_summary =
		(struct export_summary){.rows = s.n_rows, .row_name = "rows", .bytes = bytes};
	return r;
}

const struct export_ops export_sqlite = {
	.name = "sqlite",
	.extension = ".sqlite",
	.viewers = "sqlite3, datasette, DuckDB",
	.reads = "sqlite3 datasette",
	.begin = "plx1",
	.begin_at = 68,
	.write = sqlite_write,
};
