#include "cli/cli.h"

#include <string.h>

const struct gw_command gw_commands[] = {
#define GW_COMMAND(sym, name, help) {name, help, gw_cmd_##sym, &gw_argp_##sym},
#include "cli/commands.def"
#undef GW_COMMAND
    {NULL, NULL, NULL, NULL}};

const struct gw_command *gw_command_find(const char *name)
{
    for (const struct gw_command *c = gw_commands; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

#define WORD_MAX 40

/* Edits that turn `a` into `b`: insert, delete, change, swap neighbours (optimal string alignment). */
static size_t distance(const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b);
    size_t row[3][WORD_MAX + 1];
    if (la > WORD_MAX || lb > WORD_MAX)
        return SIZE_MAX;
    for (size_t i = 0; i <= la; i++) {
        size_t *now = row[i % 3], *before = row[(i + 2) % 3], *earlier = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            if (i == 0) {
                now[j] = j;
                continue;
            }
            size_t best = before[j - 1] + (a[i - 1] != b[j - 1]);
            if (before[j] + 1 < best)
                best = before[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && earlier[j - 2] + 1 < best)
                best = earlier[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[la % 3][lb];
}

const char *gw_cli_nearest(const char *word, const char *(*words)(size_t i))
{
    const char *best = NULL, *w;
    size_t least = strlen(word) / 3 + 1; /* one slip in three letters */
    for (size_t i = 0; (w = words(i)) != NULL; i++) {
        size_t d = distance(word, w);
        if (d <= least && d < strlen(w)) {
            if (!best || d < least)
                best = w;
            least = d;
        }
    }
    return best;
}
