/* SPDX-License-Identifier: MIT */
/*
 * The methods that the server answers.
 *
 *     initialize, ping                              the era of connections, until 2025-11-25
 *     server/discover, tasks/get, _update, _cancel  the stateless era, 2026-07-28
 *     tools/list, tools/call, resources/list, resources/read, resources/templates/list, prompts/list,
 *     completion/complete
 *
 * A request whose _meta has a revision is of the stateless era, whatever came before it; one without is of
 * the connection, unless that was never initialized and has carried requests of the stateless era: then its
 * _meta was forgotten. Anything else is −32601 at once: clients of both eras find out by it what they speak to.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "mcp/jsonrpc.h"
#include "mcp/sandbox_resources.h"
#include "mcp/serve.h"
#include "mcp/server.h"
#include "mcp/tools.h"
#include "util/cleanup.h"
#include "util/error.h"

enum {
	UNSUPPORTED_VERSION = -32022,
	MISSING_CAPABILITY = -32021,
};

struct request {
	const struct jsonrpc_message *message;
	enum revision revision;
	bool stateless;
	bool tasks; /* the client takes part in the tasks extension */
	size_t length;
};

static const char instructions[] =
	"execute_code runs code in a fresh sandbox: no network, no access to the host's files, "
	"limits on memory, time, processes and disk; nothing is kept from one call to the next. "
	"Pass input as files or stdin, and print what you want to see; files that the code leaves "
	"in its working directory are returned. For work in several steps, sandbox_initialize makes a "
	"sandbox whose files stay, in which sandbox_exec runs code and commands, also in the background; "
	"its context keeps variables from call to call, as a notebook does, and returns values, tables and plots. Before "
	"something risky sandbox_snapshot keeps the files; sandbox_restore brings them back, sandbox_fork tries it in a copy. "
	"sandbox_stop ends it. list_languages tells which languages are there, test_sandbox what works.";

static void reply(
	struct server *server, const struct request *request, enum result_kind kind, json_t *result)
{
	send_result(server, request->message->id, request->revision, kind, result);
}

static void refuse(
	struct server *server, const struct request *request, int code, const char *reason)
{
	send_error(server, request->message->id, code, reason, NULL);
}

static json_t *capabilities(enum revision revision)
{
	json_t *object = json_pack("{s:{}, s:{}, s:{}}", "tools", "resources", "prompts");

	if (revision >= REVISION_2025_03_26)
		json_object_set_new(object, "completions", json_object());
	if (revision >= REVISION_2026_07_28)
		json_object_set_new(
			object, "extensions", json_pack("{s:{}}", "io.modelcontextprotocol/tasks"));
	return object;
}

static void answer_initialize(struct server *server, const struct request *request)
{
	const json_t *wanted = json_object_get(request->message->params, "protocolVersion");
	enum revision revision;

	if (!json_is_string(wanted)) {
		refuse(server, request, JSONRPC_INVALID_PARAMS,
			"protocolVersion: expected a string");
		return;
	}
	revision = revision_find(json_string_value(wanted));
	server->revision = revision <= REVISION_LEGACY_NEWEST ? revision : REVISION_LEGACY_NEWEST;
	server->initialized = true;
	send_result(server, request->message->id, server->revision, RESULT_PLAIN,
		json_pack("{s:s, s:o, s:o, s:s}", "protocolVersion",
			revision_name(server->revision), "capabilities",
			capabilities(server->revision), "serverInfo",
			revision_server_info(server->revision), "instructions", instructions));
}

static void answer_discover(struct server *server, const struct request *request)
{
	reply(server, request, RESULT_CACHEABLE,
		json_pack("{s:[s], s:o, s:s}", "supportedVersions",
			revision_name(REVISION_2026_07_28), "capabilities",
			capabilities(request->revision), "instructions", instructions));
}

static void answer_ping(struct server *server, const struct request *request)
{
	reply(server, request, RESULT_PLAIN, json_object());
}

/* All lists have one page. Returns whether the request asks for another. */
static bool has_cursor(struct server *server, const struct request *request)
{
	if (!json_object_get(request->message->params, "cursor"))
		return false;
	refuse(server, request, JSONRPC_INVALID_PARAMS, "cursor: there is one page only");
	return true;
}

static void answer_tools_list(struct server *server, const struct request *request)
{
	json_t *result, *tool;
	size_t i;

	if (has_cursor(server, request))
		return;
	if (!server->tools)
		server->tools = tools_list(server->options);
	result = json_deep_copy(server->tools);
	json_array_foreach(json_object_get(result, "tools"), i, tool)
		revision_fit_tool(request->revision, tool);
	reply(server, request, RESULT_CACHEABLE, result);
}

static void answer_resources_list(struct server *server, const struct request *request)
{
	json_t *list;

	if (has_cursor(server, request))
		return;
	list = outputs_list(&server->outputs);
	sandbox_resources_add(list);
	reply(server, request, RESULT_PRIVATE, json_pack("{s:o}", "resources", list));
}

static void answer_templates_list(struct server *server, const struct request *request)
{
	json_t *list;

	if (has_cursor(server, request))
		return;
	list = outputs_templates();
	sandbox_resources_add_template(list);
	reply(server, request, RESULT_CACHEABLE, json_pack("{s:o}", "resourceTemplates", list));
}

static void answer_prompts_list(struct server *server, const struct request *request)
{
	if (!has_cursor(server, request))
		reply(server, request, RESULT_CACHEABLE, json_pack("{s:[]}", "prompts"));
}

/* Answered once the sandbox has answered. Takes over the step's content and the arguments. */
static void ask_sandbox(struct server *server, const struct request *request,
	const struct tool *tool, struct step *step, json_t *arguments)
{
	struct call *call = call_list_add(&server->calls, request->message->id, NULL, tool, step,
		request->length);

	call->revision = request->revision;
	call->arguments = arguments;
}

static void read_sandbox(struct server *server, const struct request *request, const json_t *uri)
{
	struct error err = {0};
	struct step step;

	step_init(&step);
	if (sandbox_resource_prepare(json_string_value(uri), &step, &err) < 0)
		send_error(server, request->message->id, resource_not_found(request->revision),
			err.text, json_pack("{s:O}", "uri", uri));
	else
		ask_sandbox(server, request, &sandbox_resource, &step, json_pack("{s:O}", "uri", uri));
	step_free(&step);
}

static void answer_resources_read(struct server *server, const struct request *request)
{
	const json_t *uri = json_object_get(request->message->params, "uri");
	struct error err = {0};
	json_t *contents;

	if (!json_is_string(uri)) {
		refuse(server, request, JSONRPC_INVALID_PARAMS, "uri: expected a string");
		return;
	}
	if (sandbox_resource_is(json_string_value(uri))) {
		read_sandbox(server, request, uri);
		return;
	}
	contents = outputs_read(&server->outputs, json_string_value(uri), &err);
	if (contents)
		reply(server, request, RESULT_PRIVATE, json_pack("{s:o}", "contents", contents));
	else
		send_error(server, request->message->id,
			resource_not_found(request->revision), err.text, json_pack("{s:O}", "uri", uri));
}

/* --- completion --- */

/* Of templates of resources; there are no prompts. */
static void answer_complete(struct server *server, const struct request *request)
{
	const json_t *params = request->message->params;
	const json_t *ref = json_object_get(params, "ref"), *argument = json_object_get(params, "argument");
	const char *type = json_string_value(json_object_get(ref, "type"));
	const char *uri = json_string_value(json_object_get(ref, "uri"));
	const char *name = json_string_value(json_object_get(argument, "name"));
	const char *value = json_string_value(json_object_get(argument, "value"));
	json_t *result = NULL;
	struct step step;
	int r = -1;

	if (!type || !name || !value) {
		refuse(server, request, JSONRPC_INVALID_PARAMS,
			"expected ref with a type, and argument with a name and a value");
		return;
	}
	step_init(&step);
	if (strcmp(type, "ref/resource") == 0 && uri && sandbox_resource_is(uri))
		r = sandbox_complete(name, value,
			json_object_get(json_object_get(params, "context"), "arguments"), &result, &step);
	else if (strcmp(type, "ref/resource") == 0 && uri && outputs_is_template(uri))
		r = outputs_complete(&server->outputs, name, value, &result);
	if (r < 0)
		refuse(server, request, JSONRPC_INVALID_PARAMS,
			"ref, argument: there is no such template of a resource, or it has no such argument");
	else if (r == 0)
		reply(server, request, RESULT_PLAIN, result);
	else
		ask_sandbox(server, request, &sandbox_completion, &step,
			json_pack("{s:s}", "value", value));
	step_free(&step);
}

/* --- tasks --- */

static struct task *find_task(struct server *server, const struct request *request)
{
	const json_t *id = json_object_get(request->message->params, "taskId");
	struct task *task;

	if (!request->tasks) {
		send_error(server, request->message->id, MISSING_CAPABILITY,
			"tasks are an extension that this request's clientCapabilities do not have",
			json_pack("{s:{s:{s:{}}}}", "requiredCapabilities", "extensions",
				"io.modelcontextprotocol/tasks"));
		return NULL;
	}
	if (!json_is_string(id)) {
		refuse(server, request, JSONRPC_INVALID_PARAMS, "taskId: expected a string");
		return NULL;
	}
	task = tasks_find(&server->tasks, json_string_value(id));
	if (!task)
		refuse(server, request, JSONRPC_INVALID_PARAMS,
			"taskId: no such task; tasks are kept for an hour");
	return task;
}

static void answer_task_get(struct server *server, const struct request *request)
{
	const struct task *task = find_task(server, request);

	if (task)
		reply(server, request, RESULT_PLAIN, task_to_json(task, true));
}

/* No tool of ours asks for input, so whatever is sent answers nothing. */
static void answer_task_update(struct server *server, const struct request *request)
{
	if (find_task(server, request))
		reply(server, request, RESULT_PLAIN, json_object());
}

static void answer_task_cancel(struct server *server, const struct request *request)
{
	struct task *task = find_task(server, request);
	struct call *call, *next;

	if (!task)
		return;
	for (call = server->calls.first; call; call = next) {
		next = call->next;
		if (call->task != task)
			continue;
		call->task = NULL; /* whose place may be another's before everything of the run is gone */
		cancel_call(server, call);
	}
	task_cancel(task);
	reply(server, request, RESULT_PLAIN, json_object());
}

/* --- tools/call --- */

static const json_t *progress_token(const struct jsonrpc_message *message)
{
	const json_t *token =
		json_object_get(json_object_get(message->params, "_meta"), "progressToken");

	return json_is_string(token) || json_is_integer(token) ? token : NULL;
}

static void answer_tool(struct server *server, const struct request *request, json_t *result)
{
	revision_fit_tool_result(request->revision, result);
	reply(server, request, RESULT_PLAIN, result);
}

/* Takes over the step's content and the state. */
static void add_call(struct server *server, const struct request *request, const struct tool *tool,
	struct step *step, json_t *state, const json_t *arguments)
{
	struct call *call = call_list_add(&server->calls, request->message->id,
		progress_token(request->message), tool, step, request->length);

	call->revision = request->revision;
	call->may_become_task = request->tasks;
	call->state = state;
	call->arguments = json_incref((json_t *)arguments);
}

/* A tool of several steps; there may be none at all. */
static void begin_call(struct server *server, const struct request *request,
	const struct tool *tool, const json_t *arguments, struct step *step)
{
	struct error err = {0};
	json_t *state = tool->begin(server->options, arguments, &err);

	if (!state) {
		answer_tool(server, request, tool_failure(&err));
	} else if (tool->next(state, NULL, step)) {
		add_call(server, request, tool, step, state, arguments);
	} else {
		answer_tool(server, request, tool->conclude(state));
		json_decref(state);
	}
}

static void warm(struct server *server, const struct tool *tool, const json_t *arguments, const struct spec *spec)
{
	cleanup_free char *language = tool->cold_language ? tool->cold_language(arguments, spec) : NULL;

	if (language)
		warmings_begin(&server->warmings, &server->runner, language,
			spec->root == ROOT_IMAGE ? spec->root_path : NULL);
}

int prepare_step(struct server *server, const struct tool *tool, const json_t *arguments,
	struct step *step, struct error *err)
{
	int r;

	if (server->options->config)
		config_apply_to_spec(server->options->config, &step->spec);
	r = tool->prepare(server->options, arguments, step, err);
	if (r < 0 || (step->kind != STEP_RUN && step->kind != STEP_CREATE))
		return r;
	r = spec_validate(&step->spec, err);
	if (r == 0)
		warm(server, tool, arguments, &step->spec);
	return r;
}

static void queue_call(struct server *server, const struct request *request,
	const struct tool *tool, const json_t *arguments)
{
	struct error err = {0};
	struct step step;

	step_init(&step);
	if (tool->begin)
		begin_call(server, request, tool, arguments, &step);
	else if (prepare_step(server, tool, arguments, &step, &err) < 0)
		answer_tool(server, request, tool_failure(&err));
	else
		add_call(server, request, tool, &step, NULL, arguments);
	step_free(&step);
}

static void answer_tools_call(struct server *server, const struct request *request)
{
	const json_t *name = json_object_get(request->message->params, "name");
	const json_t *arguments = json_object_get(request->message->params, "arguments");
	const struct tool *tool = json_is_string(name) ? tool_find(json_string_value(name)) : NULL;
	json_t *none = json_object();
	char reason[128];

	if (!json_is_string(name)) {
		refuse(server, request, JSONRPC_INVALID_PARAMS,
			"name: expected the name of a tool");
	} else if (!tool) {
		snprintf(reason, sizeof reason, "unknown tool: %.80s", json_string_value(name));
		refuse(server, request, JSONRPC_INVALID_PARAMS, reason);
	} else if (arguments && !json_is_object(arguments)) {
		refuse(server, request, JSONRPC_INVALID_PARAMS, "arguments: expected an object");
	} else {
		queue_call(server, request, tool, arguments ? arguments : none);
	}
	json_decref(none);
}

/* --- dispatch --- */

enum era { ERA_BOTH, ERA_CONNECTION, ERA_STATELESS };

static const struct method {
	const char *name;
	enum era era;
	void (*answer)(struct server *server, const struct request *request);
} methods[] = {
	{"tools/call", ERA_BOTH, answer_tools_call},
	{"tools/list", ERA_BOTH, answer_tools_list},
	{"ping", ERA_CONNECTION, answer_ping},
	{"server/discover", ERA_STATELESS, answer_discover},
	{"resources/list", ERA_BOTH, answer_resources_list},
	{"resources/read", ERA_BOTH, answer_resources_read},
	{"resources/templates/list", ERA_BOTH, answer_templates_list},
	{"prompts/list", ERA_BOTH, answer_prompts_list},
	{"completion/complete", ERA_BOTH, answer_complete},
	{"tasks/get", ERA_STATELESS, answer_task_get},
	{"tasks/update", ERA_STATELESS, answer_task_update},
	{"tasks/cancel", ERA_STATELESS, answer_task_cancel},
	{"initialize", ERA_CONNECTION, answer_initialize},
};

static const struct method *find_method(const char *name)
{
	for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
		if (strcmp(methods[i].name, name) == 0)
			return &methods[i];
	return NULL;
}

static void refuse_version(
	struct server *server, const struct request *request, const char *requested)
{
	send_error(server, request->message->id, UNSUPPORTED_VERSION,
		"Unsupported protocol version",
		json_pack("{s:[s], s:s}", "supported", revision_name(REVISION_2026_07_28),
			"requested", requested));
}

/* Whether the request is one of the stateless era whose _meta was forgotten. */
static bool lacks_meta(
	const struct server *server, const struct request *request, const struct method *method)
{
	if (request->stateless || method->era == ERA_CONNECTION)
		return false;
	return (server->stateless && !server->initialized) ||
	       method->answer == answer_discover;
}

static void dispatch(struct server *server, const struct request *request)
{
	const char *name = request->message->method;
	const struct method *method = find_method(name);
	char reason[128];

	if (method && lacks_meta(server, request, method)) {
		refuse(server, request, JSONRPC_INVALID_PARAMS,
			"params._meta: io.modelcontextprotocol/protocolVersion and clientCapabilities are missing");
	} else if (method && (method->era == ERA_BOTH ||
				     (method->era == ERA_STATELESS) == request->stateless)) {
		method->answer(server, request);
	} else {
		snprintf(reason, sizeof reason, "method not found: %.80s", name);
		refuse(server, request, JSONRPC_METHOD_NOT_FOUND, reason);
	}
}

void handle_request(struct server *server, const struct jsonrpc_message *message, size_t length)
{
	struct request request = {
		.message = message, .revision = server->revision, .length = length};
	struct request_meta meta = {0};
	const char *reason = "";

	/* With its id, the answer would look like that of the first. */
	if (call_list_find(&server->calls, message->id)) {
		send_error(server, NULL, JSONRPC_INVALID_REQUEST,
			"id: a request with this id is in flight", NULL);
		return;
	}
	switch (request_meta_read(message->params, &meta, &reason)) {
	case META_ABSENT:
		dispatch(server, &request);
		return;
	case META_OK:
		request.revision = meta.revision;
		request.stateless = server->stateless = true;
		request.tasks = meta.tasks;
		dispatch(server, &request);
		return;
	case META_INVALID:
		refuse(server, &request, JSONRPC_INVALID_PARAMS, reason);
		return;
	case META_UNSUPPORTED:
		refuse_version(server, &request, reason);
		return;
	}
}
