/*
 * Two keys: NAME/record has the record as JSON, NAME/lease the node that
 * serves. A request goes to the endpoint that answered last, and to the others
 * in turn where that one is silent.
 *
 * libcurl is loaded when a store is opened: it brings some forty libraries,
 * which would delay the start of every other command.
 */
#include "ring/stores/stores.h"

#include "base/base64.h"
#include "base/json.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libcurl.so.4"
#define MOST_ENDPOINTS 9u
#define MOST_BYTES ((size_t)1 << 20) /* of an answer */
#define CONNECT_MS 1000L
#define ANSWER_MS 3000L
#define SECOND INT64_C(1000000000)

/* The functions of libcurl that are used. */
struct curl {
    void *library; /* NULL: not loaded */
    CURL *(*easy_init)(void);
    CURLcode (*easy_setopt)(CURL *handle, CURLoption option, ...);
    CURLcode (*easy_getinfo)(CURL *handle, CURLINFO info, ...);
    CURLcode (*easy_perform)(CURL *handle);
    const char *(*easy_strerror)(CURLcode code);
    void (*easy_cleanup)(CURL *handle);
    struct curl_slist *(*slist_append)(struct curl_slist *list,
                                       const char *text);
    void (*slist_free_all)(struct curl_slist *list);
};

struct etcd {
    struct curl api;
    CURL *curl;
    struct curl_slist *headers;
    bool has_tls;
    struct pen_text endpoints[MOST_ENDPOINTS];
    size_t num_endpoints;
    size_t last;                /* the endpoint that answered last */
    struct pen_text record_key; /* in base64, as below */
    struct pen_text lease_key;
    uint64_t lease;  /* of etcd, that was granted last; 0: none */
    uint32_t holder; /* the holder of that lease */
};

/* ---- requests ---- */

static size_t take_bytes(char *bytes, size_t size, size_t count, void *context)
{
    struct pen_text *answer = context;
    if (answer->length + size * count > MOST_BYTES)
        return 0;
    pen_text_add_bytes(answer, bytes, size * count);
    return answer->has_failed ? 0 : size * count;
}

static pen_status ask_one(struct etcd *etcd, size_t endpoint, const char *path,
                          const char *body, struct pen_text *answer,
                          struct pen_text *why)
{
    struct pen_text url = PEN_TEXT_EMPTY;
    CURL *curl = etcd->curl;
    long code = 0;
    pen_text_add(&url, "%s://%s/v3/%s", etcd->has_tls ? "https" : "http",
                 pen_text_string(&etcd->endpoints[endpoint]), path);
    answer->length = 0;
    etcd->api.easy_setopt(curl, CURLOPT_URL, pen_text_string(&url));
    etcd->api.easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    etcd->api.easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    CURLcode failed = etcd->api.easy_perform(curl);
    etcd->api.easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
    bool is_answered = failed == CURLE_OK && code == 200;
    if (failed != CURLE_OK)
        pen_why(why, "%s: %s; ", pen_text_string(&etcd->endpoints[endpoint]),
                etcd->api.easy_strerror(failed));
    else if (!is_answered)
        pen_why(why, "%s: HTTP %ld; ",
                pen_text_string(&etcd->endpoints[endpoint]), code);
    pen_text_release(&url);
    return is_answered ? PEN_OK : PEN_LATE;
}

/*
 * Sends a request and takes the body. On success drop out->object. A request
 * that changes something and was sent without an answer is not repeated
 * elsewhere: the caller reads whether it was done.
 */
static pen_status ask(struct etcd *etcd, const char *path, json_t *body,
                      bool is_repeatable, struct pen_json *out,
                      struct pen_text *why)
{
    struct pen_text reasons = PEN_TEXT_EMPTY;
    struct pen_text answer = PEN_TEXT_EMPTY;
    char *text = body == NULL ? NULL : json_dumps(body, JSON_COMPACT);
    size_t num_tries = is_repeatable ? etcd->num_endpoints : 1;
    pen_status status = text == NULL ? PEN_NOMEM : PEN_LATE;
    for (size_t i = 0; i < num_tries && status == PEN_LATE; i++) {
        size_t endpoint = (etcd->last + i) % etcd->num_endpoints;
        status = ask_one(etcd, endpoint, path, text, &answer, &reasons);
        if (status == PEN_OK)
            etcd->last = endpoint;
    }
    if (status == PEN_OK)
        status = pen_json_load(pen_text_string(&answer), answer.length, out,
                               &reasons);
    if (status != PEN_OK)
        pen_why(why, "etcd does not answer: %s", pen_text_string(&reasons));
    free(text);
    json_decref(body);
    pen_text_release(&reasons);
    pen_text_release(&answer);
    return status;
}

/*
 * Reads a number: etcd's JSON has those of 64 bits as strings, and leaves out
 * 0.
 */
static uint64_t number_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text == NULL ? 0 : strtoull(text, NULL, 10);
}

/* Returns the first value of a range; NULL when there is none. */
static const json_t *first_of(const json_t *answer)
{
    return json_array_get(json_object_get(answer, "kvs"), 0);
}

static pen_status get(struct etcd *etcd, const struct pen_text *key,
                      struct pen_json *out, struct pen_text *why)
{
    return ask(etcd, "kv/range",
               json_pack("{s:s}", "key", pen_text_string(key)), true, out, why);
}

/*
 * Writes a value if the key has this version. *is_done: it had, and has the
 * value now.
 */
static pen_status put_at(struct etcd *etcd, const struct pen_text *key,
                         uint64_t version, json_t *put, bool *is_done,
                         struct pen_text *why)
{
    struct pen_json answer;
    char number[24];
    snprintf(number, sizeof number, "%" PRIu64, version);
    json_t *body =
        json_pack("{s:[{s:s, s:s, s:s, s:s}], s:[{s:o}]}", "compare", "key",
                  pen_text_string(key), "target", "VERSION", "result", "EQUAL",
                  "version", number, "success", "requestPut", put);
    pen_status status = ask(etcd, "kv/txn", body, false, &answer, why);
    if (status != PEN_OK) {
        /* The next request begins with another endpoint. */
        etcd->last = (etcd->last + 1) % etcd->num_endpoints;
        return status;
    }
    *is_done = json_is_true(json_object_get(answer.object, "succeeded"));
    json_decref(answer.object);
    return PEN_OK;
}

/* ---- the record ---- */

static pen_status parse_value(const json_t *value, struct pen_ring_record *out,
                              uint64_t *revision, struct pen_text *why)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    const char *letters = json_string_value(json_object_get(value, "value"));
    uint64_t told = 0;
    pen_status status =
        pen_base64_decode(letters == NULL ? "" : letters, &text, why);
    if (status == PEN_OK)
        status = pen_ring_record_parse(pen_text_string(&text), text.length, out,
                                       &told, why);
    *revision = number_of(value, "version") + 1;
    if (status == PEN_OK && told != *revision) {
        pen_why(why,
                "etcd has revision %" PRIu64 " of a record that says %" PRIu64
                ": something else writes this key",
                *revision, told);
        status = PEN_INVALID;
    }
    pen_text_release(&text);
    return status;
}

static pen_status read_record(void *target, struct pen_ring_record *out,
                              uint64_t *revision, struct pen_text *why)
{
    struct etcd *etcd = target;
    struct pen_json answer;
    pen_status status = get(etcd, &etcd->record_key, &answer, why);
    if (status != PEN_OK)
        return status;
    const json_t *value = first_of(answer.object);
    *out = (struct pen_ring_record){0};
    *revision = 1;
    if (value != NULL)
        status = parse_value(value, out, revision, why);
    json_decref(answer.object);
    return status;
}

static pen_status swap(void *target, uint64_t revision,
                       const struct pen_ring_record *record, bool *is_done,
                       struct pen_text *why)
{
    struct etcd *etcd = target;
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text value = PEN_TEXT_EMPTY;
    pen_status status = pen_ring_record_print(record, revision + 1, &text);
    pen_base64_encode(pen_text_string(&text), text.length, &value);
    *is_done = false;
    if (status == PEN_OK)
        status = put_at(etcd, &etcd->record_key, revision - 1,
                        json_pack("{s:s, s:s}", "key",
                                  pen_text_string(&etcd->record_key), "value",
                                  pen_text_string(&value)),
                        is_done, why);
    pen_text_release(&text);
    pen_text_release(&value);
    return status;
}

static pen_status watch(void *target, uint64_t revision, bool *is_later,
                        struct pen_text *why)
{
    struct etcd *etcd = target;
    struct pen_json answer;
    pen_status status = get(etcd, &etcd->record_key, &answer, why);
    if (status != PEN_OK)
        return status;
    *is_later = number_of(first_of(answer.object), "version") + 1 > revision;
    json_decref(answer.object);
    return PEN_OK;
}

/* ---- the lease ---- */

/* Renews the lease; *is_renewed: etcd still had it. */
static pen_status renew(struct etcd *etcd, bool *is_renewed,
                        struct pen_text *why)
{
    struct pen_json answer;
    char number[24];
    snprintf(number, sizeof number, "%" PRIu64, etcd->lease);
    pen_status status =
        ask(etcd, "lease/keepalive", json_pack("{s:s}", "ID", number), true,
            &answer, why);
    if (status != PEN_OK)
        return status;
    const json_t *result = json_object_get(answer.object, "result");
    *is_renewed = number_of(result, "TTL") > 0;
    json_decref(answer.object);
    return PEN_OK;
}

static pen_status grant(struct etcd *etcd, int64_t duration, uint64_t *lease,
                        struct pen_text *why)
{
    struct pen_json answer;
    json_int_t seconds = (json_int_t)((duration + SECOND - 1) / SECOND);
    pen_status status =
        ask(etcd, "lease/grant", json_pack("{s:I}", "TTL", seconds), true,
            &answer, why);
    if (status != PEN_OK)
        return status;
    *lease = number_of(answer.object, "ID");
    json_decref(answer.object);
    return PEN_OK;
}

static pen_status claim(struct etcd *etcd, uint32_t holder, uint64_t lease,
                        bool *is_granted, struct pen_text *why)
{
    struct pen_text value = PEN_TEXT_EMPTY;
    char number[24];
    int length = snprintf(number, sizeof number, "%" PRIu32, holder);
    pen_base64_encode(number, (size_t)length, &value);
    snprintf(number, sizeof number, "%" PRIu64, lease);
    pen_status status = put_at(
        etcd, &etcd->lease_key, 0,
        json_pack("{s:s, s:s, s:s}", "key", pen_text_string(&etcd->lease_key),
                  "value", pen_text_string(&value), "lease", number),
        is_granted, why);
    pen_text_release(&value);
    return status;
}

/*
 * Takes the lease. When it runs out, etcd removes its key, so that the next
 * holder can write it.
 */
static pen_status lease(void *target, uint32_t holder, int64_t duration,
                        bool *is_granted, struct pen_text *why)
{
    struct etcd *etcd = target;
    pen_status status = PEN_OK;
    *is_granted = false;
    if (etcd->lease != 0 && etcd->holder == holder)
        status = renew(etcd, is_granted, why);
    if (status != PEN_OK || *is_granted)
        return status;
    uint64_t granted = 0;
    status = grant(etcd, duration, &granted, why);
    if (status == PEN_OK)
        status = claim(etcd, holder, granted, is_granted, why);
    if (*is_granted) {
        etcd->lease = granted;
        etcd->holder = holder;
    }
    return status;
}

/* ---- opening ---- */

static void close_etcd(void *target)
{
    struct etcd *etcd = target;
    for (size_t i = 0; i < etcd->num_endpoints; i++)
        pen_text_release(&etcd->endpoints[i]);
    if (etcd->headers != NULL)
        etcd->api.slist_free_all(etcd->headers);
    if (etcd->curl != NULL)
        etcd->api.easy_cleanup(etcd->curl);
    if (etcd->api.library != NULL)
        dlclose(etcd->api.library);
    pen_text_release(&etcd->record_key);
    pen_text_release(&etcd->lease_key);
    free(etcd);
}

static pen_status add_endpoints(struct etcd *etcd, const char *words,
                                struct pen_text *why)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "abcdefghijklmnopqrstuvwxyz0123456789-.:[]";
    for (;;) {
        size_t length = strcspn(words, ",");
        if (length == 0 || strspn(words, letters) < length ||
            etcd->num_endpoints == MOST_ENDPOINTS) {
            pen_why(why,
                    "etcd://%s: endpoints are HOST:PORT with commas between "
                    "them, at most %u",
                    words, MOST_ENDPOINTS);
            return PEN_INVALID;
        }
        pen_text_add_bytes(&etcd->endpoints[etcd->num_endpoints++], words,
                           length);
        if (words[length] == '\0')
            return PEN_OK;
        words += length + 1;
    }
}

static void add_key(const char *name, const char *ending, struct pen_text *out)
{
    struct pen_text key = PEN_TEXT_EMPTY;
    pen_text_add(&key, "penstock/%s/%s", name, ending);
    pen_base64_encode(pen_text_string(&key), key.length, out);
    pen_text_release(&key);
}

static pen_status load_curl(struct curl *api, struct pen_text *why)
{
    const struct {
        const char *name;
        void *place; /* of the pointer */
    } functions[] = {{"curl_easy_init", &api->easy_init},
                     {"curl_easy_setopt", &api->easy_setopt},
                     {"curl_easy_getinfo", &api->easy_getinfo},
                     {"curl_easy_perform", &api->easy_perform},
                     {"curl_easy_strerror", &api->easy_strerror},
                     {"curl_easy_cleanup", &api->easy_cleanup},
                     {"curl_slist_append", &api->slist_append},
                     {"curl_slist_free_all", &api->slist_free_all}};
    api->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    bool is_there = api->library != NULL;
    for (size_t i = 0; i < sizeof functions / sizeof *functions && is_there;
         i++) {
        void *found = dlsym(api->library, functions[i].name);
        memcpy(functions[i].place, &found, sizeof found);
        is_there = found != NULL;
    }
    if (is_there)
        return PEN_OK;
    pen_why(why, "a store in etcd needs libcurl (package libcurl4): %s",
            dlerror());
    return PEN_INVALID;
}

/* libcurl copies the names. */
static void set_tls(struct etcd *etcd, const struct pen_ring_etcd_tls *tls)
{
    const struct {
        CURLoption option;
        const struct pen_text *file;
    } files[] = {{CURLOPT_CAINFO, &tls->ca},
                 {CURLOPT_SSLCERT, &tls->cert},
                 {CURLOPT_SSLKEY, &tls->key}};
    etcd->has_tls = true;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i].file->length > 0)
            etcd->api.easy_setopt(etcd->curl, files[i].option,
                                  pen_text_string(files[i].file));
    etcd->api.easy_setopt(etcd->curl, CURLOPT_SSLVERSION,
                          (long)CURL_SSLVERSION_TLSv1_2);
}

static pen_status start_curl(struct etcd *etcd, struct pen_text *why)
{
    pen_status status = load_curl(&etcd->api, why);
    if (status != PEN_OK)
        return status;
    etcd->curl = etcd->api.easy_init();
    etcd->headers =
        etcd->api.slist_append(NULL, "Content-Type: application/json");
    if (etcd->curl == NULL || etcd->headers == NULL) {
        pen_why(why, "no memory for libcurl");
        return PEN_NOMEM;
    }
    etcd->api.easy_setopt(etcd->curl, CURLOPT_HTTPHEADER, etcd->headers);
    etcd->api.easy_setopt(etcd->curl, CURLOPT_WRITEFUNCTION, take_bytes);
    etcd->api.easy_setopt(etcd->curl, CURLOPT_NOSIGNAL, 1L);
    etcd->api.easy_setopt(etcd->curl, CURLOPT_NOPROXY, "*");
    etcd->api.easy_setopt(etcd->curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    etcd->api.easy_setopt(etcd->curl, CURLOPT_TIMEOUT_MS, ANSWER_MS);
    return PEN_OK;
}

pen_status pen_ring_etcd_open(const char *endpoints, const char *name,
                              const struct pen_ring_etcd_tls *tls,
                              struct pen_ring_store *out, struct pen_text *why)
{
    struct etcd *etcd = calloc(1, sizeof *etcd);
    if (etcd == NULL)
        return PEN_NOMEM;
    add_key(name, "record", &etcd->record_key);
    add_key(name, "lease", &etcd->lease_key);
    pen_status status = add_endpoints(etcd, endpoints, why);
    if (status == PEN_OK)
        status = start_curl(etcd, why);
    if (status != PEN_OK) {
        close_etcd(etcd);
        return status;
    }
    if (tls != NULL)
        set_tls(etcd, tls);
    *out = (struct pen_ring_store){.target = etcd,
                                   .read = read_record,
                                   .swap = swap,
                                   .watch = watch,
                                   .lease = lease,
                                   .close = close_etcd};
    return PEN_OK;
}
