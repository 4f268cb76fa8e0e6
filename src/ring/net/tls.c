#include "ring/net/tls.h"

#include "base/file.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIBRARY "libssl.so.3"
#define MOST_CERTIFICATE 4096 /* bytes that an end may show */

/* The functions of libssl that are used; libcrypto is linked. */
#define FUNCTIONS(X)                                                           \
    X(TLS_method)                                                              \
    X(SSL_CTX_new)                                                             \
    X(SSL_CTX_free)                                                            \
    X(SSL_CTX_ctrl)                                                            \
    X(SSL_CTX_set_options)                                                     \
    X(SSL_CTX_set_num_tickets)                                                 \
    X(SSL_CTX_set_verify)                                                      \
    X(SSL_CTX_set_cert_verify_callback)                                        \
    X(SSL_CTX_use_certificate)                                                 \
    X(SSL_CTX_use_PrivateKey)                                                  \
    X(SSL_new)                                                                 \
    X(SSL_free)                                                                \
    X(SSL_set_fd)                                                              \
    X(SSL_set_accept_state)                                                    \
    X(SSL_set_connect_state)                                                   \
    X(SSL_do_handshake)                                                        \
    X(SSL_read)                                                                \
    X(SSL_write)                                                               \
    X(SSL_shutdown)                                                            \
    X(SSL_get_error)                                                           \
    X(SSL_get1_peer_certificate)

struct pen__tls {
    void *library;
    SSL_CTX *context;
    uint8_t key[PEN__KEY_BYTES];
#define POINTER(name) __typeof__(name) *name;
    FUNCTIONS(POINTER)
#undef POINTER
};

/* Casts our type to libssl's. */
static SSL *ssl_of(struct pen__tls_link *link)
{
    return (SSL *)link;
}

static pen_status refuse(const char *what, struct pen_text *why)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = code == 0 ? NULL : ERR_reason_error_string(code);
    pen_why(why, "%s: %s", what, reason == NULL ? "no reason known" : reason);
    ERR_clear_error();
    return PEN_INVALID;
}

/* ---- keys */

static bool public_part(EVP_PKEY *pair, uint8_t key[PEN__KEY_BYTES])
{
    size_t length = PEN__KEY_BYTES;
    return pair != NULL && EVP_PKEY_get_base_id(pair) == EVP_PKEY_ED25519 &&
           EVP_PKEY_get_raw_public_key(pair, key, &length) == 1 &&
           length == PEN__KEY_BYTES;
}

static pen_status write_key(const char *path, EVP_PKEY *pair,
                            struct pen_text *why)
{
    int handle =
        open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (handle < 0 && errno == EEXIST) {
        pen_why(why, "%s exists; a key is never overwritten", path);
        return PEN_IO;
    }
    FILE *file = handle < 0 ? NULL : fdopen(handle, "w");
    if (file == NULL)
        return pen_file_refuse("write", path, why);
    bool is_written =
        fchmod(handle, 0600) == 0 &&
        PEM_write_PrivateKey(file, pair, NULL, NULL, 0, NULL, NULL) == 1 &&
        fflush(file) == 0 && fsync(handle) == 0;
    is_written = fclose(file) == 0 && is_written;
    if (is_written)
        return PEN_OK;
    pen_status status = pen_file_refuse("write", path, why);
    unlink(path);
    return status;
}

pen_status pen__tls_make_key(const char *path, struct pen__ring_peer *out,
                             struct pen_text *why)
{
    EVP_PKEY *pair = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    *out = (struct pen__ring_peer){.is_there = true};
    pen_status status = public_part(pair, out->key)
                            ? write_key(path, pair, why)
                            : refuse("cannot make an Ed25519 key", why);
    EVP_PKEY_free(pair);
    return status;
}

static pen_status read_key(const char *path, EVP_PKEY **out,
                           struct pen_text *why)
{
    int handle;
    uint64_t num_bytes;
    struct stat facts;
    pen_status status = pen_file_open(path, &handle, &num_bytes, why);
    if (status != PEN_OK)
        return status;
    if (fstat(handle, &facts) != 0 || (facts.st_mode & 077) != 0) {
        pen_why(why,
                "%s: others may read this key; chmod 600 it, or make another "
                "key if this one may have been read",
                path);
        close(handle);
        return PEN_INVALID;
    }
    FILE *file = fdopen(handle, "r");
    if (file == NULL) {
        close(handle);
        return PEN_NOMEM;
    }
    *out = PEM_read_PrivateKey(file, NULL, NULL, (void *)(uintptr_t) "");
    fclose(file);
    uint8_t key[PEN__KEY_BYTES];
    if (public_part(*out, key))
        return PEN_OK;
    EVP_PKEY_free(*out);
    *out = NULL;
    ERR_clear_error();
    pen_why(why, "%s is not a key that penstock ring key made", path);
    return PEN_INVALID;
}

/*
 * Makes a certificate that it signs itself. Only its key counts, so the rest is
 * the same for all.
 */
static X509 *make_certificate(EVP_PKEY *pair)
{
    X509 *made = X509_new();
    bool is_made =
        made != NULL && X509_set_version(made, X509_VERSION_3) == 1 &&
        ASN1_INTEGER_set(X509_get_serialNumber(made), 1) == 1 &&
        ASN1_TIME_set_string(X509_getm_notBefore(made), "20000101000000Z") ==
            1 &&
        ASN1_TIME_set_string(X509_getm_notAfter(made), "99991231235959Z") ==
            1 &&
        X509_set_pubkey(made, pair) == 1 && X509_sign(made, pair, NULL) > 0;
    if (is_made)
        return made;
    X509_free(made);
    return NULL;
}

/* ---- the context */

static pen_status load(struct pen__tls *tls, struct pen_text *why)
{
    static const char *const names[] = {
#define NAME(name) #name,
        FUNCTIONS(NAME)
#undef NAME
    };
    void *places[] = {
#define PLACE(name) &tls->name,
        FUNCTIONS(PLACE)
#undef PLACE
    };
    tls->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    bool is_there = tls->library != NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && is_there; i++) {
        void *found = dlsym(tls->library, names[i]);
        memcpy(places[i], &found, sizeof found);
        is_there = found != NULL;
    }
    if (is_there)
        return PEN_OK;
    pen_why(why, "a ring needs OpenSSL 3 (package libssl3): %s", dlerror());
    return PEN_INVALID;
}

/*
 * Takes any certificate with an Ed25519 key. The caller looks up whose key it
 * is, so that a stranger gets a reason for its refusal.
 */
static int has_our_kind(X509_STORE_CTX *store, void *context)
{
    (void)context;
    uint8_t key[PEN__KEY_BYTES];
    X509 *shown = X509_STORE_CTX_get0_cert(store);
    return shown != NULL && public_part(X509_get0_pubkey(shown), key);
}

static bool control(struct pen__tls *tls, int what, long number,
                    const char *text)
{
    return tls->SSL_CTX_ctrl(tls->context, what, number,
                             (void *)(uintptr_t)text) != 0;
}

static bool set_up(struct pen__tls *tls, EVP_PKEY *pair, X509 *certificate)
{
    tls->context = tls->SSL_CTX_new(tls->TLS_method());
    if (tls->context == NULL)
        return false;
    tls->SSL_CTX_set_options(tls->context, SSL_OP_NO_TICKET |
                                               SSL_OP_NO_RENEGOTIATION |
                                               SSL_OP_NO_COMPRESSION);
    tls->SSL_CTX_set_verify(
        tls->context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    tls->SSL_CTX_set_cert_verify_callback(tls->context, has_our_kind, NULL);
    /* These two return the previous setting. */
    tls->SSL_CTX_ctrl(tls->context, SSL_CTRL_SET_SESS_CACHE_MODE,
                      SSL_SESS_CACHE_OFF, NULL);
    tls->SSL_CTX_ctrl(tls->context, SSL_CTRL_SET_MAX_CERT_LIST,
                      MOST_CERTIFICATE, NULL);
    tls->SSL_CTX_ctrl(tls->context, SSL_CTRL_MODE,
                      SSL_MODE_ENABLE_PARTIAL_WRITE |
                          SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                          SSL_MODE_RELEASE_BUFFERS,
                      NULL);
    return control(tls, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, NULL) &&
           control(tls, SSL_CTRL_SET_MAX_PROTO_VERSION, TLS1_3_VERSION, NULL) &&
           control(tls, SSL_CTRL_SET_SIGALGS_LIST, 0, "ed25519") &&
           control(tls, SSL_CTRL_SET_CLIENT_SIGALGS_LIST, 0, "ed25519") &&
           tls->SSL_CTX_set_num_tickets(tls->context, 0) == 1 &&
           tls->SSL_CTX_use_certificate(tls->context, certificate) == 1 &&
           tls->SSL_CTX_use_PrivateKey(tls->context, pair) == 1;
}

pen_status pen__tls_create(const char *key_path, struct pen__tls **out,
                           struct pen_text *why)
{
    EVP_PKEY *pair = NULL;
    struct pen__tls *tls = calloc(1, sizeof *tls);
    if (tls == NULL)
        return PEN_NOMEM;
    pen_status status = read_key(key_path, &pair, why);
    if (status == PEN_OK)
        status = load(tls, why);
    X509 *certificate = status == PEN_OK ? make_certificate(pair) : NULL;
    if (status == PEN_OK &&
        (certificate == NULL || !public_part(pair, tls->key) ||
         !set_up(tls, pair, certificate)))
        status = refuse("cannot prepare TLS", why);
    X509_free(certificate);
    EVP_PKEY_free(pair);
    if (status != PEN_OK) {
        pen__tls_free(tls);
        return status;
    }
    signal(SIGPIPE, SIG_IGN);
    *out = tls;
    return PEN_OK;
}

void pen__tls_free(struct pen__tls *tls)
{
    if (tls == NULL)
        return;
    if (tls->context != NULL)
        tls->SSL_CTX_free(tls->context);
    /* libssl stays loaded: it has handlers that run when the program ends. */
    free(tls);
}

const uint8_t *pen__tls_key(const struct pen__tls *tls)
{
    return tls->key;
}

/* ---- links */

struct pen__tls_link *pen__tls_open(struct pen__tls *tls, int handle,
                                    bool is_server)
{
    SSL *ssl = tls->SSL_new(tls->context);
    if (ssl == NULL || tls->SSL_set_fd(ssl, handle) != 1) {
        tls->SSL_free(ssl);
        ERR_clear_error();
        return NULL;
    }
    if (is_server)
        tls->SSL_set_accept_state(ssl);
    else
        tls->SSL_set_connect_state(ssl);
    return (struct pen__tls_link *)ssl;
}

void pen__tls_close(struct pen__tls *tls, struct pen__tls_link *link)
{
    if (link == NULL)
        return;
    ERR_clear_error();
    tls->SSL_shutdown(ssl_of(link));
    tls->SSL_free(ssl_of(link));
    ERR_clear_error();
}

static pen_status judge(struct pen__tls *tls, struct pen__tls_link *link,
                        int result, bool *wants_write, struct pen_text *why)
{
    if (result > 0)
        return PEN_OK;
    int kind = tls->SSL_get_error(ssl_of(link), result);
    *wants_write = kind == SSL_ERROR_WANT_WRITE;
    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE)
        return PEN_BUSY;
    unsigned long code = ERR_peek_last_error();
    const char *reason = code == 0 ? NULL : ERR_reason_error_string(code);
    if (kind == SSL_ERROR_SYSCALL && errno != 0)
        reason = strerror(errno);
    pen_why(why, "%s",
            reason == NULL ? "the other end closed the connection" : reason);
    ERR_clear_error();
    return PEN_LOST;
}

pen_status pen__tls_shake(struct pen__tls *tls, struct pen__tls_link *link,
                          bool *wants_write, struct pen_text *why)
{
    ERR_clear_error();
    errno = 0;
    return judge(tls, link, tls->SSL_do_handshake(ssl_of(link)), wants_write,
                 why);
}

pen_status pen__tls_read(struct pen__tls *tls, struct pen__tls_link *link,
                         void *bytes, size_t room, size_t *length,
                         bool *wants_write, struct pen_text *why)
{
    ERR_clear_error();
    errno = 0;
    int most = room > INT32_MAX ? INT32_MAX : (int)room;
    int result = tls->SSL_read(ssl_of(link), bytes, most);
    *length = result > 0 ? (size_t)result : 0;
    return judge(tls, link, result, wants_write, why);
}

pen_status pen__tls_write(struct pen__tls *tls, struct pen__tls_link *link,
                          const void *bytes, size_t room, size_t *length,
                          bool *wants_write, struct pen_text *why)
{
    ERR_clear_error();
    errno = 0;
    int most = room > INT32_MAX ? INT32_MAX : (int)room;
    int result = tls->SSL_write(ssl_of(link), bytes, most);
    *length = result > 0 ? (size_t)result : 0;
    return judge(tls, link, result, wants_write, why);
}

bool pen__tls_peer(struct pen__tls *tls, struct pen__tls_link *link,
                   uint8_t key[PEN__KEY_BYTES])
{
    X509 *shown = tls->SSL_get1_peer_certificate(ssl_of(link));
    bool is_there = shown != NULL && public_part(X509_get0_pubkey(shown), key);
    X509_free(shown);
    return is_there;
}
