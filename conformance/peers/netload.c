// A neutral load generator over libsmb2 and libnfs: N connections, one thread each, a fixed number of requests in flight
// on each. Built by `conformance/peers/peers` against the libraries of Debian sid, run by it and by `conformance/speed`.
// It prints one line: MiB/s, requests a second, and the fewest and most requests any one connection got through.
//
//   netload smb|n3|n4 HOST PORT SHARE FILE read|write|mixed|rand|list BS CONNS QD SECS [FSIZE] [SIGN] [SEAL]
//
// list: FILE is a directory that is read to its end with the attributes of what is in it, again and again; each entry counts
// as a request.
//
// NL_MOUNTPORT: NFS mount port (default PORT+1). NL_NOCREAT=1: write without O_CREAT. libsmb2 signs and seals in plain C,
// so signed and sealed figures measure this program rather than the server.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <smb2/smb2.h>
#include <smb2/libsmb2.h>
#include <nfsc/libnfs.h>

#define MAX_CONNS 256

static struct {
    const char *proto, *host, *share, *file;
    int port, conns, depth, sign, seal, writes_percent, random, list;
    size_t block_bytes, file_bytes;
    double seconds;
} opt;
static pthread_barrier_t all_connected;

struct conn {
    int id;
    struct smb2_context *smb;
    struct smb2fh *smb_file;
    struct nfs_context *nfs;
    struct nfsfh *nfs_file;
    uint64_t done, next_block;
    int in_flight, stopping;
    double took;
    unsigned seed;
};

struct request {
    struct conn *conn;
    uint8_t *buf;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "netload: %s: %s\n", what, why);
    exit(2);
}

static const char *last_error(struct conn *c) { return c->smb ? smb2_get_error(c->smb) : nfs_get_error(c->nfs); }

static void issue(struct request *r);

static void finished(struct request *r, int64_t status)
{
    struct conn *c = r->conn;
    if (status < 0 || (size_t)status != opt.block_bytes)
        die("short or failed request", last_error(c));
    c->done++;
    c->in_flight--;
    if (!c->stopping)
        issue(r);
}

static void smb_finished(struct smb2_context *smb, int status, void *data, void *request)
{
    (void)smb, (void)data;
    finished(request, status);
}

static void nfs_finished(int status, struct nfs_context *nfs, void *data, void *request)
{
    (void)nfs, (void)data;
    finished(request, status);
}

static void issue(struct request *r)
{
    struct conn *c = r->conn;
    uint64_t blocks = opt.file_bytes / opt.block_bytes;
    uint64_t offset = (opt.random ? (uint64_t)rand_r(&c->seed) : c->next_block++) % blocks * opt.block_bytes;
    int write = rand_r(&c->seed) % 100 < opt.writes_percent, failed;
    c->in_flight++;
    if (c->smb && write)
        failed = smb2_pwrite_async(c->smb, c->smb_file, r->buf, opt.block_bytes, offset, smb_finished, r);
    else if (c->smb)
        failed = smb2_pread_async(c->smb, c->smb_file, r->buf, opt.block_bytes, offset, smb_finished, r);
    else if (write)
        failed = nfs_pwrite_async(c->nfs, c->nfs_file, offset, opt.block_bytes, r->buf, nfs_finished, r);
    else
        failed = nfs_pread_async(c->nfs, c->nfs_file, offset, opt.block_bytes, nfs_finished, r);
    if (failed < 0)
        die("request", last_error(c));
}

static void serve_socket(struct conn *c)
{
    struct pollfd p = {0};
    p.fd = c->smb ? smb2_get_fd(c->smb) : nfs_get_fd(c->nfs);
    p.events = c->smb ? smb2_which_events(c->smb) : nfs_which_events(c->nfs);
    if (poll(&p, 1, 100) < 0)
        die("poll", "failed");
    if (p.revents && (c->smb ? smb2_service(c->smb, p.revents) : nfs_service(c->nfs, p.revents)) < 0)
        die("connection", last_error(c));
}

static int open_flags(void)
{
    if (!opt.writes_percent)
        return O_RDONLY;
    return getenv("NL_NOCREAT") ? O_RDWR : O_RDWR | O_CREAT;
}

static void connect_smb(struct conn *c)
{
    char host[128];
    snprintf(host, sizeof host, "%s:%d", opt.host, opt.port);
    c->smb = smb2_init_context();
    smb2_set_security_mode(c->smb, SMB2_NEGOTIATE_SIGNING_ENABLED);
    smb2_set_version(c->smb, SMB2_VERSION_0311);
    smb2_set_authentication(c->smb, 1);
    smb2_set_user(c->smb, "bench");
    smb2_set_password(c->smb, "pw");
    if (opt.sign)
        smb2_set_sign(c->smb, 1);
    if (opt.seal)
        smb2_set_seal(c->smb, 1);
    if (smb2_connect_share(c->smb, host, opt.share, "bench") < 0)
        die("connect", last_error(c));
    if (!opt.list && !(c->smb_file = smb2_open(c->smb, opt.file, open_flags())))
        die("open", last_error(c));
    if (c->id == 0 && smb2_get_max_read_size(c->smb) < opt.block_bytes)
        fprintf(stderr, "netload: the server's reads end at %u bytes\n", smb2_get_max_read_size(c->smb));
}

static void connect_nfs(struct conn *c)
{
    char url[512], name[64], verifier[16];
    const char *mount_port = getenv("NL_MOUNTPORT");
    c->nfs = nfs_init_context();
    nfs_set_dircache(c->nfs, 0);
    if (opt.proto[1] == '4') {
        snprintf(name, sizeof name, "netload-%d-%d", (int)getpid(), c->id);
        snprintf(verifier, 9, "%04x%04x", (int)getpid() & 0xffff, c->id & 0xffff);
        nfs4_set_client_name(c->nfs, strdup(name));
        nfs4_set_verifier(c->nfs, strdup(verifier));
    }
    snprintf(url, sizeof url, "nfs://%s/%s?version=%c&nfsport=%d&mountport=%d", opt.host, opt.share, opt.proto[1], opt.port,
             mount_port ? atoi(mount_port) : opt.port + 1);
    struct nfs_url *u = nfs_parse_url_dir(c->nfs, url);
    if (!u || nfs_mount(c->nfs, u->server, u->path) < 0)
        die("mount", last_error(c));
    if (!opt.list && nfs_open(c->nfs, opt.file, open_flags(), &c->nfs_file) < 0)
        die("open", last_error(c));
}

static uint64_t list_smb(struct conn *c)
{
    uint64_t entries = 0;
    struct smb2dir *dir = smb2_opendir(c->smb, opt.file);
    if (!dir)
        die("list", last_error(c));
    while (smb2_readdir(c->smb, dir))
        entries++;
    smb2_closedir(c->smb, dir);
    return entries;
}

static uint64_t list_nfs(struct conn *c)
{
    uint64_t entries = 0;
    struct nfsdir *dir;
    if (nfs_opendir(c->nfs, opt.file, &dir) < 0)
        die("list", last_error(c));
    while (nfs_readdir(c->nfs, dir))
        entries++;
    nfs_closedir(c->nfs, dir);
    return entries;
}

/* Whole listings only, so that the seconds are those they took. */
static void list(struct conn *c)
{
    double began = now();
    do
        c->done += c->smb ? list_smb(c) : list_nfs(c);
    while (now() - began < opt.seconds);
    c->took = now() - began;
}

static void *run(void *arg)
{
    struct conn *c = arg;
    c->seed = c->id * 7919 + 1;
    c->next_block = opt.file_bytes / opt.block_bytes / opt.conns * c->id;
    if (opt.proto[0] == 's')
        connect_smb(c);
    else
        connect_nfs(c);
    if (opt.list) {
        pthread_barrier_wait(&all_connected);
        list(c);
        return NULL;
    }
    struct request *requests = calloc(opt.depth, sizeof *requests);
    for (int i = 0; i < opt.depth; i++) {
        requests[i].conn = c;
        requests[i].buf = malloc(opt.block_bytes);
        memset(requests[i].buf, i + 1, opt.block_bytes);
    }
    pthread_barrier_wait(&all_connected);
    double began = now();
    for (int i = 0; i < opt.depth; i++)
        issue(&requests[i]);
    while (now() - began < opt.seconds)
        serve_socket(c);
    c->stopping = 1;
    uint64_t counted = c->done;
    while (c->in_flight)
        serve_socket(c);
    c->done = counted;
    return NULL;
}

static void parse(int argc, char **argv)
{
    if (argc < 11) {
        fprintf(stderr, "netload smb|n3|n4 HOST PORT SHARE FILE read|write|mixed|rand|list BS CONNS QD SECS [FSIZE] [SIGN] [SEAL]\n");
        exit(1);
    }
    const char *mode = argv[6];
    opt.proto = argv[1], opt.host = argv[2], opt.port = atoi(argv[3]), opt.share = argv[4], opt.file = argv[5];
    opt.writes_percent = mode[0] == 'w' ? 100 : mode[0] == 'm' ? 50 : 0;
    opt.list = mode[0] == 'l';
    opt.random = strstr(mode, "rand") != NULL;
    opt.block_bytes = strtoul(argv[7], NULL, 10), opt.conns = atoi(argv[8]), opt.depth = atoi(argv[9]), opt.seconds = atof(argv[10]);
    opt.file_bytes = argc > 11 ? strtoul(argv[11], NULL, 10) : 1UL << 30;
    opt.sign = argc > 12 && atoi(argv[12]), opt.seal = argc > 13 && atoi(argv[13]);
    if (opt.conns < 1 || opt.conns > MAX_CONNS || opt.depth < 1 || opt.block_bytes < 1 || opt.file_bytes < opt.block_bytes)
        die("arguments", "out of range");
}

int main(int argc, char **argv)
{
    static struct conn conns[MAX_CONNS];
    static pthread_t threads[MAX_CONNS];
    parse(argc, argv);
    pthread_barrier_init(&all_connected, NULL, opt.conns);
    for (int i = 0; i < opt.conns; i++) {
        conns[i].id = i;
        if (pthread_create(&threads[i], NULL, run, &conns[i]))
            die("thread", "cannot be started");
    }
    uint64_t done = 0, fewest = UINT64_MAX, most = 0;
    for (int i = 0; i < opt.conns; i++) {
        pthread_join(threads[i], NULL);
        if (conns[i].took > opt.seconds)
            opt.seconds = conns[i].took;
        done += conns[i].done;
        fewest = conns[i].done < fewest ? conns[i].done : fewest;
        most = conns[i].done > most ? conns[i].done : most;
    }
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    printf("%s %s %s bs %zu conns %d depth %d: %.1f MiB/s %.0f iops done %lu fewest %lu most %lu client-cpu %.2f\n", opt.proto,
           opt.share, argv[6], opt.block_bytes, opt.conns, opt.depth, done * (double)opt.block_bytes / opt.seconds / 1048576,
           done / opt.seconds, done, fewest, most,
           u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6);
    return 0;
}
