/* pinfold's plugin for Slurm (SPANK): each task of a batch script or a step asks pinfold before it executes its command, and
 * waits until pinfold lets it go. Its processes stay in the groups that Slurm made.
 *
 * Built against the headers of the Slurm that it is for, as Slurm loads no plugin of another version:
 *   cc -O2 -Wall -shared -fPIC -o pinfold_spank.so pinfold_spank.c
 * plugstack.conf: optional DIR/pinfold_spank.so pinfold=/usr/bin/pinfold [socket=PATH] [down=run|wait]
 *
 * It runs in the task's own process, as its user, bound to the CPUs that Slurm gave it. No word of a user's gets to a shell.
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

SPANK_PLUGIN(pinfold, 1);

enum { WORD_MAX = 256, SAID_MAX = 8192, WRONG_USAGE = 2, STRUCK_OFF = 5 };
#define PRIORITY_MAX 16
#define TEXT_OF(value) #value
#define TEXT(value) TEXT_OF(value)
enum { PRIORITY, CLASS, MEMORY, TMP, OPTIONS };

/* What srun and sbatch were told; empty: nothing. */
static char given[OPTIONS][WORD_MAX];
static const char *const switches[OPTIONS] = { "--priority", NULL, "--mem", "--tmp" };

/* A number with a unit, such as 2G, 1.5GiB or 512MB: nothing else gets through, on the host of srun or here. */
static int is_size(const char *text)
{
	static const char digits[] = "0123456789";
	size_t whole, part = 0;
	if (!text || !(whole = strspn(text, digits)) || whole > 12)
		return 0;
	text += whole;
	if (*text == '.') {
		text++;
		part = strspn(text, digits);
		if (part < 1 || part > 6)
			return 0;
		text += part;
	}
	if (!part && (!strcmp(text, "B") || !strcmp(text, "b")))
		return 1;
	if (!*text || !strchr("kKmMgGtT", *text))
		return 0;
	text++;
	return !*text || !strcmp(text, "B") || !strcmp(text, "b") || !strcmp(text, "iB") || !strcmp(text, "ib");
}

static int is_number(const char *text)
{
	size_t length = strlen(text);
	return length >= 1 && length < 10 && strspn(text, "0123456789") == length;
}

/* 1 to PRIORITY_MAX, in digits. A host may have fewer (`priority.max`), which pinfold says there. */
static int is_priority(const char *text)
{
	size_t length = text ? strlen(text) : 0;
	int number;
	if (length < 1 || length > 3 || strspn(text, "0123456789") != length)
		return 0;
	number = atoi(text);
	return number >= 1 && number <= PRIORITY_MAX;
}

static int is_class(const char *text)
{
	return text && (!strcmp(text, "primary") || !strcmp(text, "backfill"));
}

/* A user can leave out srun and sbatch, so that the host of the job checks again. There a wrong value counts as none, and the
 * job is managed all the same. */
static int take_option(int which, const char *text, int remote)
{
	static const char *const expected[OPTIONS] = {
		"--pinfold-priority takes a whole number from 1 to " TEXT(PRIORITY_MAX), "--pinfold-class takes primary or backfill",
		"--pinfold-mem takes a size such as 2G", "--pinfold-tmp takes a size such as 2G"
	};
	int good = which == PRIORITY ? is_priority(text) : which == CLASS ? is_class(text) : is_size(text);
	if (!good) {
		slurm_error("pinfold: %s%s", expected[which], remote ? ": the value that the job has counts as none" : "");
		return -1;
	}
	snprintf(given[which], sizeof given[which], "%s", text);
	return 0;
}

static struct spank_option options[] = {
	{ "pinfold-priority", "N", "pinfold: importance on the host, 1 to " TEXT(PRIORITY_MAX), 1, PRIORITY, take_option },
	{ "pinfold-class", "CLASS", "pinfold: primary (a home core) or backfill (idle cycles)", 1, CLASS, take_option },
	{ "pinfold-mem", "SIZE", "pinfold: memory that it is expected to need", 1, MEMORY, take_option },
	{ "pinfold-tmp", "SIZE", "pinfold: a TMPDIR in memory, gone when the job is over", 1, TMP, take_option },
	SPANK_OPTIONS_TABLE_END
};

int slurm_spank_init(spank_t sp, int ac, char **av)
{
	int failed = ESPANK_SUCCESS;
	(void) ac;
	(void) av;
	for (int i = 0; i < OPTIONS; i++) {
		int registered = spank_option_register(sp, &options[i]);
		if (registered != ESPANK_SUCCESS)
			failed = registered;
	}
	return failed;
}

/* Reads all that is said, and hands NAME=VALUE lines on to the task. */
static void set_variables(spank_t sp, int from)
{
	static char said[SAID_MAX];
	size_t length = 0;
	for (;;) {
		ssize_t count = length + 1 < sizeof said ? read(from, said + length, sizeof said - 1 - length) : 0;
		if (count < 0 && errno == EINTR)
			continue;
		if (count <= 0)
			break;
		length += (size_t) count;
	}
	said[length] = 0;
	for (char *next, *line = strtok_r(said, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
		char *value = strchr(line, '=');
		if (!value)
			continue;
		*value++ = 0;
		if (spank_setenv(sp, line, value, 1) != ESPANK_SUCCESS)
			slurm_error("pinfold: %s cannot be set", line);
	}
}

/* Runs `pinfold wlm enter` for this process, and comes back with its status if the task may go on, whether it is managed or
 * not. */
static int ask(spank_t sp, char **words)
{
	int ends[2], status = 0;
	pid_t child;
	if (pipe(ends) != 0 || (child = fork()) < 0) {
		slurm_error("pinfold: %s: the task runs unmanaged", strerror(errno));
		return 0;
	}
	if (child == 0) {
		char *environment[] = { "PATH=/usr/bin:/bin:/usr/local/bin", NULL };
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		close(ends[1]);
		execve(words[0], words, environment);
		_exit(127);
	}
	close(ends[1]);
	set_variables(sp, ends[0]);
	close(ends[0]);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	/* What an `optional` plugin returns stops nobody. */
	if (WIFEXITED(status) && WEXITSTATUS(status) == STRUCK_OFF)
		_exit(STRUCK_OFF);
	/* scancel signals all processes of a batch step but its first: the job is over before it began. */
	if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGKILL)) {
		signal(WTERMSIG(status), SIG_DFL);
		raise(WTERMSIG(status));
		_exit(128 + WTERMSIG(status));
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* What plugstack.conf says. */
struct told {
	char *program, *socket, *down;
};

static struct told told_in(int ac, char **av)
{
	struct told told = { "/usr/bin/pinfold", NULL, "run" };
	for (int i = 0; i < ac; i++) {
		if (!strncmp(av[i], "pinfold=", 8))
			told.program = av[i] + 8;
		else if (!strncmp(av[i], "socket=", 7))
			told.socket = av[i] + 7;
		else if (!strncmp(av[i], "down=", 5))
			told.down = av[i] + 5;
	}
	return told;
}

/* The words of a command line up to `pinfold wlm`; how many they are. */
static int begin_words(char **words, struct told told)
{
	int n = 0;
	words[n++] = told.program;
	words[n++] = "--no-autostart";
	if (told.socket) {
		words[n++] = "--socket";
		words[n++] = told.socket;
	}
	words[n++] = "wlm";
	return n;
}

/* Slurm's epilog, as root: what pinfold still has of the job is ended. A failure of it must not drain the host. */
int slurm_spank_job_epilog(spank_t sp, int ac, char **av)
{
	char name[64], *words[16];
	uint32_t job = 0;
	pid_t child;
	int n;
	if (spank_get_item(sp, S_JOB_ID, &job) != ESPANK_SUCCESS)
		return 0;
	snprintf(name, sizeof name, "slurm:%u", job);
	n = begin_words(words, told_in(ac, av));
	words[n++] = "over";
	words[n++] = name;
	words[n] = NULL;
	child = fork();
	if (child == 0) {
		char *environment[] = { "PATH=/usr/bin:/bin:/usr/local/bin", NULL };
		execve(words[0], words, environment);
		_exit(127);
	}
	while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	return 0;
}

int slurm_spank_task_init(spank_t sp, int ac, char **av)
{
	struct told told = told_in(ac, av);
	char name[WORD_MAX], pid[32], pus[32], memory[32], title[WORD_MAX] = "--name=", *words[32], *cores = NULL;
	uint32_t job = 0, step = 0;
	uint64_t mib = 0;
	int n, plain, status;
	if (spank_get_item(sp, S_JOB_ID, &job) != ESPANK_SUCCESS || spank_get_item(sp, S_JOB_STEPID, &step) != ESPANK_SUCCESS)
		return 0;
	if (step == SLURM_EXTERN_CONT)
		return 0;
	if (step == SLURM_BATCH_SCRIPT)
		snprintf(name, sizeof name, "slurm:%u.batch", job);
	else if (step == SLURM_INTERACTIVE_STEP)
		snprintf(name, sizeof name, "slurm:%u.interactive", job);
	else
		snprintf(name, sizeof name, "slurm:%u.%u", job, step);
	snprintf(pid, sizeof pid, "%d", (int) getpid());
	n = begin_words(words, told);
	words[n++] = "enter";
	words[n++] = "--external";
	words[n++] = name;
	words[n++] = "--pid";
	words[n++] = pid;
	words[n++] = "--down";
	words[n++] = told.down;
	plain = n;
	/* What the job has on this host, and not what this step has of it: all of its steps are one job there. The environment is
	 * the user's to change, and counts where Slurm does not tell. */
	if (spank_get_item(sp, S_JOB_ALLOC_CORES, &cores) == ESPANK_SUCCESS && cores && *cores) {
		words[n++] = "--allocated-cores";
		words[n++] = cores;
	} else if (spank_getenv(sp, "SLURM_CPUS_ON_NODE", pus, sizeof pus) == ESPANK_SUCCESS && is_number(pus)) {
		words[n++] = "--pus";
		words[n++] = pus;
	}
	if (spank_get_item(sp, S_JOB_ALLOC_MEM, &mib) == ESPANK_SUCCESS && mib > 0) {
		snprintf(memory, sizeof memory, "%lluMiB", (unsigned long long) mib);
		words[n++] = "--allocated-mem";
		words[n++] = memory;
	}
	if (spank_getenv(sp, "SLURM_JOB_NAME", title + strlen(title), (int) (sizeof title - strlen(title))) == ESPANK_SUCCESS)
		words[n++] = title;
	for (int i = 0; i < OPTIONS; i++) {
		if (!given[i][0])
			continue;
		if (i == CLASS) {
			words[n++] = !strcmp(given[i], "primary") ? "--primary" : "--backfill";
		} else {
			words[n++] = (char *) switches[i];
			words[n++] = given[i];
		}
	}
	words[n] = NULL;
	status = ask(sp, words);
	/* What pinfold does not take must not be a way past it. */
	if (status == WRONG_USAGE && n > plain) {
		slurm_error("pinfold: a wrong value: what the job asks of pinfold counts as none");
		words[plain] = NULL;
		status = ask(sp, words);
	}
	if (status != 0)
		slurm_error("pinfold: %s ended with status %d: the task runs unmanaged", words[0], status);
	return 0;
}
