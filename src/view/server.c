/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The server: libevent's HTTP on 127.0.0.1, one loop, one thread. It answers with the embedded files
 * of web/ itself. All that reads the trace is done by a child process per answer (worker.h), which
 * has limits for time and memory; the loop passes on what it writes. So the loop's own memory does not
 * grow with the trace, and nothing that a file or a page does stops it.
 *
 *     browser ──▶ evhttp ──▶ request.c: token, host, origin ──▶ file of web/
 *                                                          └──▶ fork ──▶ answer ──▶ pipe ──▶ browser
 */
#include "view/view.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/text.h"
#include "export/export.h"
#include "view/answer.h"
#include "view/assets.h"
#include "view/common.h"
#include "view/follow.h"
#include "view/growing.h"
#include "view/open.h"
#include "view/prepare.h"
#include "view/request.h"
#include "view/viewers.h"
#include "view/worker.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define MAX_WORKERS 4u
#define MAX_WAITING 64u
#define MAX_HEADERS 16384
/* Without a request on a connection; that a browser reads nothing of an answer. */
#define IDLE_S 30
#define UNREAD_S 120
/* The same for the first request, where there are many connections: a browser has few. */
#define CROWDED_FD (MAX_FD / 2)
#define CROWDED_S 2
/* Connections beyond wait in the kernel until others have ended. */
#define MAX_FD 200
#define PIPE_PART 65536
/* More of an answer is not kept for a browser that does not read: the child waits. */
#define SLACK_S 10

static const char csp[] =
	"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
	"img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'none'; "
	"frame-ancestors 'none'";

struct server {
	struct event_base *base;
	struct evhttp *http;
	struct evhttp_bound_socket *bound;
	struct event *resume; /* takes connections again */
	struct event *signals[3];
	struct trace_follow *follow;	  /* NULL: the trace is whole */
	struct view_growing growing;	  /* what makes its indexes, if it is not */
	struct page_follower *followers;  /* browsers that are notified when it has grown */
	const struct view_viewer *viewer; /* NULL: the own page */
	struct request_gate gate;
	struct view_source source;
	char token[REQUEST_TOKEN + 1];
	struct answer_job *running, *waiting, **waiting_last;
	unsigned n_running, n_waiting;
};

struct page_follower {
	struct server *server;
	struct evhttp_request *http;
	struct page_follower *next;
};

/* An answer that is being made. */
struct answer_job {
	struct server *server;
	struct evhttp_request *http;
	const struct view_answer *answer;
	struct view_request request;
	struct answer_job *next;
	struct worker worker; /* if it runs; else it waits for its turn */
	struct event *readable, *late;
	struct evbuffer *head; /* until the status is known */
	bool runs, replying;
};

/* ---- replies ---- */

static void add_headers(struct server *s, struct evhttp_request *http, const char *type,
			const char *cache, bool for_viewer)
{
	struct evkeyvalq *h = evhttp_request_get_output_headers(http);

	evhttp_add_header(h, "Content-Type", type);
	evhttp_add_header(h, "Cache-Control", cache);
	evhttp_add_header(h, "Content-Security-Policy", csp);
	evhttp_add_header(h, "X-Content-Type-Options", "nosniff");
	evhttp_add_header(h, "Referrer-Policy", "no-referrer");
	evhttp_add_header(h, "Cross-Origin-Opener-Policy", "same-origin");
	evhttp_add_header(h, "Cross-Origin-Resource-Policy",
			  for_viewer ? "cross-origin" : "same-origin");
	if (for_viewer)
		evhttp_add_header(h, "Access-Control-Allow-Origin", s->gate.viewer);
}

static const char *reason_of(int status)
{
	switch (status) {
	case 200:
		return "OK";
	case 304:
		return "Not Modified";
	case 400:
		return "Bad Request";
	case 403:
		return "Forbidden";
	case 404:
		return "Not Found";
	case 413:
		return "Content Too Large";
	case 503:
		return "Service Unavailable";
	default:
		return "Internal Server Error";
	}
}

static void reply(struct server *s, struct evhttp_request *http, int status, const char *type,
		  const char *cache, const void *data, size_t len)
{
	struct evbuffer *body = evbuffer_new();
	char length[24];

	add_headers(s, http, type, cache, false);
	if (evhttp_request_get_command(http) == EVHTTP_REQ_HEAD) {
		snprintf(length, sizeof(length), "%zu", len);
		evhttp_add_header(evhttp_request_get_output_headers(http), "Content-Length",
				  length);
	} else if (body && data) {
		evbuffer_add(body, data, len);
	}
	evhttp_send_reply(http, status, reason_of(status), body);
	if (body)
		evbuffer_free(body);
}

static void refuse(struct server *s, struct evhttp_request *http, int status, const char *why)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	struct json j;

	json_init(&j, &b, false);
	json_object(&j, NULL);
	json_string(&j, "error", why);
	json_end_object(&j);
	reply(s, http, status, "application/json", "no-store", b.data, b.len);
}

static void send_asset(struct server *s, struct evhttp_request *http, const struct view_asset *a)
{
	struct evkeyvalq *in = evhttp_request_get_input_headers(http);
	const char *known = evhttp_find_header(in, "If-None-Match");
	bool same = known && !strcmp(known, a->etag);

	evhttp_add_header(evhttp_request_get_output_headers(http), "ETag", a->etag);
	reply(s, http, same ? 304 : 200, a->type, "no-cache", same ? NULL : a->data,
	      same ? 0 : a->len);
}

/* A browser says nothing while it waits for an answer, however long that takes. */
static void wait_for_request(struct evhttp_connection *connection, bool waits)
{
	static const struct timeval idle = {.tv_sec = IDLE_S}, unread = {.tv_sec = UNREAD_S};
	struct bufferevent *stream = evhttp_connection_get_bufferevent(connection);

	bufferevent_set_timeouts(stream, waits ? &idle : NULL, waits ? &idle : &unread);
}

/* ---- jobs ---- */

static void start_waiting(struct server *s);

static void job_unlink(struct answer_job *job)
{
	struct server *s = job->server;
	bool runs = job->runs;

	for (struct answer_job **at = runs ? &s->running : &s->waiting; *at; at = &(*at)->next) {
		if (*at != job)
			continue;
		*at = job->next;
		if (!runs && s->waiting_last == &job->next)
			s->waiting_last = at;
		runs ? s->n_running-- : s->n_waiting--;
		return;
	}
}

/* The browser has what it gets. */
static void job_free(struct answer_job *job)
{
	struct server *s = job->server;

	job_unlink(job);
	if (job->readable)
		event_free(job->readable);
	if (job->late)
		event_free(job->late);
	if (job->head)
		evbuffer_free(job->head);
	worker_end(&job->worker);
	free(job);
	start_waiting(s);
}

static void on_closed(struct evhttp_connection *connection, void *ctx)
{
	struct answer_job *job = ctx;

	evhttp_connection_set_closecb(connection, NULL, NULL);
	/* evhttp frees it with the connection, but for one that it has taken off it. */
	if (!evhttp_request_get_connection(job->http))
		evhttp_request_free(job->http);
	job->http = NULL;
	job_free(job);
}

/* Lets the connection go on without the job. */
static struct evhttp_request *job_take_request(struct answer_job *job)
{
	struct evhttp_request *http = job->http;
	struct evhttp_connection *connection = evhttp_request_get_connection(http);

	if (connection) {
		evhttp_connection_set_closecb(connection, NULL, NULL);
		wait_for_request(connection, true);
	}
	job->http = NULL;
	return http;
}

static void job_fail(struct answer_job *job, int status, const char *why)
{
	struct evhttp_request *http = job_take_request(job);
	struct evhttp_connection *connection = evhttp_request_get_connection(http);

	if (!job->replying)
		refuse(job->server, http, status, why);
	else if (connection)
		/* What was sent is not whole, and must not look so. */
		evhttp_connection_free(connection);
	else
		evhttp_send_reply_end(http);
	job_free(job);
}

static void add_name(struct evhttp_request *http, const char *name)
{
	_cleanup_buf_ struct buf text = BUF_INIT;

	buf_printf(&text, "attachment; filename=\"%s\"", name);
	if (!buf_failed(&text))
		evhttp_add_header(evhttp_request_get_output_headers(http), "Content-Disposition",
				  text.data);
}

/* view_begin()'s line comes first. False: not all of it is there, or it is none. */
static bool begin_reply(struct answer_job *job)
{
	size_t len;
	_cleanup_free_ char *line = evbuffer_readln(job->head, &len, EVBUFFER_EOL_LF);
	char *space = line ? strchr(line, ' ') : NULL;

	if (!space)
		return false;
	int status = atoi(line);
	char *name = strchr(space + 1, ' ');
	if (name) {
		*name = 0;
		add_name(job->http, name + 1);
	}
	add_headers(job->server, job->http, space + 1, "no-store", job->request.for_viewer);
	evhttp_send_reply_start(job->http, status, reason_of(status));
	job->replying = true;
	return true;
}

static void on_sent(struct evhttp_connection *connection, void *ctx)
{
	struct answer_job *job = ctx;

	(void)connection;
	event_add(job->readable, NULL);
}

static void job_done(struct answer_job *job)
{
	bool whole = worker_succeeded(&job->worker);

	if (!job->replying || !whole) {
		job_fail(job, 500,
			 "the answer failed: it took too long or too much memory, or the trace is "
			 "damaged");
		return;
	}
	struct evhttp_request *http = job_take_request(job);
	evhttp_send_reply_end(http);
	job_free(job);
}

static void on_readable(evutil_socket_t fd, short what, void *ctx)
{
	struct answer_job *job = ctx;

	(void)what;
	int n = evbuffer_read(job->head, fd, PIPE_PART);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		event_add(job->readable, NULL);
		return;
	}
	if (n <= 0) {
		job_done(job);
		return;
	}
	if (!job->replying && !begin_reply(job)) {
		if (evbuffer_get_length(job->head) > PIPE_PART)
			job_fail(job, 500, "the answer has no head");
		else
			event_add(job->readable, NULL);
		return;
	}
	if (evbuffer_get_length(job->head) &&
	    evhttp_request_get_command(job->http) != EVHTTP_REQ_HEAD)
		evhttp_send_reply_chunk_with_cb(job->http, job->head, on_sent, job);
	else {
		evbuffer_drain(job->head, evbuffer_get_length(job->head));
		event_add(job->readable, NULL);
	}
}

static void on_late(evutil_socket_t fd, short what, void *ctx)
{
	struct answer_job *job = ctx;

	(void)fd;
	(void)what;
	job_fail(job, 500, "the answer took too long");
}

static void start(struct server *s, struct answer_job *job)
{
	struct timeval late = {.tv_sec = job->answer->limit_s * 2 + SLACK_S};

	job->next = s->running;
	s->running = job;
	job->runs = true;
	s->n_running++;
	int code = worker_start(&job->worker, &s->source, job->answer, &job->request);
	if (code == 0) {
		job->readable = event_new(s->base, job->worker.fd, EV_READ, on_readable, job);
		job->late = evtimer_new(s->base, on_late, job);
	}
	if (!job->readable || !job->late) {
		job_fail(job, 503, "no process could be started for the answer");
		return;
	}
	event_add(job->readable, NULL);
	event_add(job->late, &late);
}

static void start_waiting(struct server *s)
{
	while (s->waiting && s->n_running < MAX_WORKERS) {
		struct answer_job *job = s->waiting;

		s->waiting = job->next;
		if (!s->waiting)
			s->waiting_last = &s->waiting;
		s->n_waiting--;
		start(s, job);
	}
}

static void take_job(struct server *s, struct evhttp_request *http,
		     const struct view_request *request, const struct view_answer *answer)
{
	struct answer_job *job = s->n_waiting < MAX_WAITING ? calloc(1, sizeof(*job)) : NULL;

	if (job)
		job->head = evbuffer_new();
	if (!job || !job->head) {
		free(job);
		refuse(s, http, 503, "too many requests at once");
		return;
	}
	job->server = s;
	job->http = http;
	job->answer = answer;
	request_copy(&job->request, request);
	evhttp_connection_set_closecb(evhttp_request_get_connection(http), on_closed, job);
	wait_for_request(evhttp_request_get_connection(http), false);
	*s->waiting_last = job;
	s->waiting_last = &job->next;
	s->n_waiting++;
	start_waiting(s);
}

/* ---- followers ---- */

static void notify_follower(struct page_follower *f)
{
	const struct view_source *v = &f->server->source;
	struct evbuffer *text = evbuffer_new();
	struct index_facts facts;

	index_facts(v->index, &facts);
	if (text) {
		evbuffer_add_printf(text,
				    "data: {\"span_ns\": %" PRIu64 ", \"events\": %" PRIu64
				    ", \"live\": %s}\n\n",
				    facts.end_ns - facts.base_ns, facts.n_events,
				    v->live ? "true" : "false");
		evhttp_send_reply_chunk(f->http, text);
		evbuffer_free(text);
	}
}

static void follower_free(struct page_follower *f)
{
	struct page_follower **at = &f->server->followers;

	while (*at && *at != f)
		at = &(*at)->next;
	if (*at)
		*at = f->next;
	free(f);
}

static void on_follower_closed(struct evhttp_connection *connection, void *ctx)
{
	struct page_follower *f = ctx;

	evhttp_connection_set_closecb(connection, NULL, NULL);
	if (!evhttp_request_get_connection(f->http))
		evhttp_request_free(f->http);
	follower_free(f);
}

static void end_follower(struct page_follower *f)
{
	struct evhttp_connection *connection = evhttp_request_get_connection(f->http);

	if (connection) {
		evhttp_connection_set_closecb(connection, NULL, NULL);
		wait_for_request(connection, true);
	}
	evhttp_send_reply_end(f->http);
	follower_free(f);
}

static void on_changed(void *ctx)
{
	struct server *s = ctx;

	for (struct page_follower *f = s->followers, *next; f; f = next) {
		next = f->next;
		notify_follower(f);
		if (!s->source.live)
			end_follower(f);
	}
}

static void take_follower(struct server *s, struct evhttp_request *http)
{
	struct page_follower *f = calloc(1, sizeof(*f));

	if (!f) {
		refuse(s, http, 503, "out of memory");
		return;
	}
	*f = (struct page_follower){.server = s, .http = http, .next = s->followers};
	s->followers = f;
	evhttp_connection_set_closecb(evhttp_request_get_connection(http), on_follower_closed, f);
	wait_for_request(evhttp_request_get_connection(http), false);
	add_headers(s, http, "text/event-stream", "no-store", false);
	evhttp_send_reply_start(http, 200, "OK");
	notify_follower(f);
	if (!s->source.live)
		end_follower(f);
}

/* ---- requests ---- */

static const char *refusal(int status)
{
	switch (status) {
	case 400:
		return "the request is malformed";
	case 403:
		return "the request comes from another page, or is for another host";
	default:
		return "there is nothing here: the address is the one that pollux printed";
	}
}

static void on_request(struct evhttp_request *http, void *ctx)
{
	struct server *s = ctx;
	struct evkeyvalq *in = evhttp_request_get_input_headers(http);
	struct request_head head = {
		.uri = evhttp_request_get_uri(http),
		.host = evhttp_find_header(in, "Host"),
		.origin = evhttp_find_header(in, "Origin"),
		.fetch_site = evhttp_find_header(in, "Sec-Fetch-Site"),
	};
	struct view_request request;
	/* Without an address it is one that evhttp could not read. */
	int status = head.uri ? request_read(&s->gate, &head, &request) : 400;

	if (status != 200) {
		refuse(s, http, status, refusal(status));
		return;
	}
	const char *path = *request.path ? request.path : "index.html";
	for (const struct view_asset *a = view_assets; a->path; a++) {
		if (!strcmp(a->path, path)) {
			send_asset(s, http, a);
			return;
		}
	}
	if (!strcmp(path, "api/follow")) {
		take_follower(s, http);
		return;
	}
	const struct view_answer *answer = view_find_answer(path);
	if (answer)
		take_job(s, http, &request, answer);
	else
		refuse(s, http, 404, "there is no such file or request");
}

/* ---- the loop ---- */

static void on_resume(evutil_socket_t fd, short what, void *ctx)
{
	struct server *s = ctx;

	(void)fd;
	(void)what;
	evconnlistener_enable(evhttp_bound_socket_get_listener(s->bound));
}

/* For each new connection: if descriptors run out, new ones are refused for a while. */
static struct bufferevent *on_connection(struct event_base *base, void *ctx)
{
	static const struct timeval soon = {.tv_usec = 200000};
	struct server *s = ctx;
	int lowest = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);

	if (lowest >= 0)
		close(lowest);
	evhttp_set_timeout(s->http, lowest > CROWDED_FD ? CROWDED_S : IDLE_S);
	if (lowest < 0 || lowest > MAX_FD) {
		evconnlistener_disable(evhttp_bound_socket_get_listener(s->bound));
		event_add(s->resume, &soon);
	}
	return bufferevent_socket_new(base, -1, 0);
}

static void on_signal(evutil_socket_t number, short what, void *ctx)
{
	struct server *s = ctx;

	(void)number;
	(void)what;
	event_base_loopbreak(s->base);
}

static int listen_at(struct server *s, uint16_t port, struct error *err)
{
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);

	s->base = event_base_new();
	s->http = s->base ? evhttp_new(s->base) : NULL;
	s->resume = s->base ? evtimer_new(s->base, on_resume, s) : NULL;
	if (!s->http || !s->resume)
		return error_set(err, -ENOMEM, "out of memory for a server");
	evhttp_set_allowed_methods(s->http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
	evhttp_set_max_headers_size(s->http, MAX_HEADERS);
	evhttp_set_max_body_size(s->http, 0);
	evhttp_set_timeout(s->http, IDLE_S);
	evhttp_set_gencb(s->http, on_request, s);
	evhttp_set_bevcb(s->http, on_connection, s);
	errno = 0;
	s->bound = evhttp_bind_socket_with_handle(s->http, "127.0.0.1", port);
	if (!s->bound)
		return error_sys(err, errno ? -errno : -EADDRINUSE, "cannot listen on 127.0.0.1:%u",
				 port);
	if (getsockname(evhttp_bound_socket_get_fd(s->bound), (struct sockaddr *)&addr, &len) < 0)
		return error_sys(err, -errno, "cannot listen on 127.0.0.1");
	s->gate.port = ntohs(addr.sin_port);
	return 0;
}

static int make_token(struct server *s, struct error *err)
{
	unsigned char bytes[REQUEST_TOKEN / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return error_sys(err, -errno, "cannot get random numbers for the address");
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(s->token + 2 * i, 3, "%02x", bytes[i]);
	s->gate.token = s->token;
	return 0;
}

static void server_done(struct server *s)
{
	/* Closing the connections ends their jobs; those that wait must not start. */
	while (s->waiting) {
		struct answer_job *job = s->waiting;
		job->http = NULL;
		s->waiting = job->next;
		s->n_waiting--;
		evbuffer_free(job->head);
		free(job);
	}
	s->waiting_last = &s->waiting;
	follow_stop(s->follow);
	view_growing_stop(&s->growing);
	while (s->followers) {
		struct evhttp_connection *connection =
			evhttp_request_get_connection(s->followers->http);
		if (connection)
			evhttp_connection_set_closecb(connection, NULL, NULL);
		follower_free(s->followers);
	}
	while (s->running) {
		struct answer_job *job = s->running;
		struct evhttp_request *http = job_take_request(job);
		(void)http; /* evhttp_free() frees it with its connection */
		job_free(job);
	}
	if (s->http)
		evhttp_free(s->http);
	if (s->resume)
		event_free(s->resume);
	for (size_t i = 0; i < 3; i++)
		if (s->signals[i])
			event_free(s->signals[i]);
	if (s->base)
		event_base_free(s->base);
	if (s->source.trace >= 0)
		close(s->source.trace);
	trace_reader_free(s->source.tables);
	index_free(s->source.index);
}

static int catch_signals(struct server *s, struct error *err)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};

	for (size_t i = 0; i < 3; i++) {
		s->signals[i] = evsignal_new(s->base, numbers[i], on_signal, s);
		if (!s->signals[i] || event_add(s->signals[i], NULL) < 0)
			return error_set(err, -ENOMEM, "out of memory for a server");
	}
	return 0;
}

/* What the answers are made from; it costs time once. */
static int open_trace(struct server *s, const struct view_options *opt, struct error *err)
{
	struct view_source *v = &s->source;
	struct view_progress progress = {opt->progress, opt->progress_ctx};
	bool built;

	v->trace = file_open(opt->path, 0, err);
	if (v->trace < 0)
		return v->trace;
	/* First of all, that it is a trace. */
	TRY(view_reader(v, &v->tables, err));
	int code = view_prepare(opt->path, v->trace, &progress, opt->follow ? &s->growing : NULL,
				&v->index, &built, err);
	if (built && opt->progress_done)
		opt->progress_done();
	TRY(code);
	TRY(index_use_kinds(v->index, v->tables, err));
	TRY(trace_reader_skip_events(v->tables, err));
	const char *lost;
	v->followed = opt->follow;
	v->live = opt->follow && trace_reader_truncated(v->tables, &lost);
	return 0;
}

static int choose_viewer(struct server *s, const struct view_options *opt, struct error *err)
{
	s->viewer = opt->in ? view_find_viewer(opt->in) : NULL;
	if (!opt->in)
		return 0;
	s->source.viewer = export_find_for(opt->in);
	if (!s->viewer || !s->source.viewer)
		return error_set(err, -EINVAL, "there is no viewer '%s'", opt->in);
	s->gate.viewer = s->viewer->origin;
	s->gate.viewer_path = "file";
	return 0;
}

static int start_serving(struct server *s, const struct view_options *opt, struct error *err)
{
	uint16_t port = opt->port;

	TRY(choose_viewer(s, opt, err));
	TRY(open_trace(s, opt, err));
	TRY(make_token(s, err));
	if (!port && s->viewer)
		port = s->viewer->port;
	TRY(listen_at(s, port, err));
	if (s->source.live)
		s->follow = follow_start(s->base, &s->source, &s->growing, on_changed, s);
	return catch_signals(s, err);
}

int view_serve(const struct view_options *opt, struct error *err)
{
	struct server s = {.source = {.path = opt->path, .trace = -1}};
	_cleanup_buf_ struct buf url = BUF_INIT, page = BUF_INIT;

	s.waiting_last = &s.waiting;
	int ret = start_serving(&s, opt, err);
	if (ret == 0) {
		buf_printf(&page, "http://127.0.0.1:%u/%s/%s", s.gate.port, s.token,
			   s.viewer ? "file" : "");
		if (s.viewer && !buf_failed(&page))
			view_viewer_url(s.viewer, page.data, &url);
		else
			buf_str(&url, page.data ? page.data : "");
		printf("%s\n", url.data ? url.data : "");
		fflush(stdout);
		if (opt->open && !buf_failed(&url))
			view_open(url.data);
		if (event_base_dispatch(s.base) < 0)
			ret = error_set(err, -EIO, "the server's loop failed");
	}
	server_done(&s);
	return ret;
}
