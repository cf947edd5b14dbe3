#include "import/kineto_root.h"

#include <string.h>

#include "import/gw_json_scan.h"

enum { S_START, S_BOM1, S_BOM2, S_MEMBER, S_KEY, S_COLON, S_VALUE, S_INSIDE, S_LOST, S_END };

/* Device properties of a node and the groups of a large job stay far below. A longer value is passed over. */
enum { VALUE_CAP = 1 << 20 };

static const char events_key[] = "traceEvents";
static const char lost_mark[] = "\"traceEvents\"";

void kineto_root_init(struct kineto_root *r, void (*value)(void *, const char *, const char *, size_t), void *user)
{
    memset(r, 0, sizeof *r);
    r->at = KINETO_AT_START;
    r->state = S_START;
    r->damaged_at = -1;
    r->value = value;
    r->user = user;
    gw_array_init(&r->text, 1, VALUE_CAP + 16);
}

void kineto_root_free(struct kineto_root *r) { gw_array_free(&r->text); }

static void damage(struct kineto_root *r, int64_t off)
{
    if (r->damaged++ == 0)
        r->damaged_at = off;
    r->state = S_LOST;
    r->at = KINETO_AT_LOST;
    r->matched = 0;
}

static void keep_byte(struct kineto_root *r, char c)
{
    if (!r->keep)
        return;
    char *slot = r->text.len < VALUE_CAP ? gw_array_push(&r->text) : NULL;
    if (slot)
        *slot = c;
    else
        r->keep = 0;
}

static void value_done(struct kineto_root *r)
{
    if (r->keep)
        r->value(r->user, r->key, r->text.data, r->text.len);
    r->state = S_MEMBER;
}

static void key_done(struct kineto_root *r)
{
    r->key[r->key_len < sizeof r->key ? r->key_len : 0] = '\0'; /* none that is wanted is that long */
    r->state = S_COLON;
    r->nodes |= !strcmp(r->key, "nodes");
}

/* First byte of a value. 1 when the list of events begins here. */
static int value_begins(struct kineto_root *r, char c)
{
    if (!strcmp(r->key, events_key)) {
        if (c == '[') {
            r->lists++;
            r->at = KINETO_AT_EVENTS;
            return 1;
        }
        r->events_no_list = 1;
    }
    r->text.len = 0;
    r->keep = r->key[0] != '\0';
    r->depth = c == '{' || c == '[';
    r->in_string = c == '"';
    r->word = !r->depth && !r->in_string;
    r->escaped = 0;
    r->state = S_INSIDE;
    keep_byte(r, c);
    return 0;
}

/* One more byte of a value. 1 when the byte is not part of it any more. */
static int value_byte(struct kineto_root *r, char c)
{
    if (r->word) {
        if (c == ',' || c == '}' || gw_json_is_ws(c)) {
            value_done(r);
            return 1;
        }
    } else if (r->in_string) {
        if (r->escaped)
            r->escaped = 0;
        else if (c == '\\')
            r->escaped = 1;
        else if (c == '"')
            r->in_string = 0;
    } else if (c == '"') {
        r->in_string = 1;
    } else if (c == '{' || c == '[') {
        r->depth++;
    } else if (c == '}' || c == ']') {
        r->depth--;
    }
    keep_byte(r, c);
    if (!r->word && !r->in_string && !r->depth)
        value_done(r);
    return 0;
}

/* Before the root. 0 go on, 1 the list begins. */
static int start_byte(struct kineto_root *r, char c)
{
    static const char bom[] = "\xef\xbb\xbf";
    if (r->state == S_START && gw_json_is_ws(c))
        return 0;
    if (r->state <= S_BOM2 && c == bom[r->state] && !r->matched) {
        r->matched = r->state == S_BOM2;
        r->state = r->state == S_BOM2 ? S_START : r->state + 1;
        return 0;
    }
    if (r->state == S_START && c == '{') {
        r->at = KINETO_AT_OBJECT;
        r->state = S_MEMBER;
    } else if (r->state == S_START && c == '[') {
        r->bare = 1;
        r->lists++;
        r->at = KINETO_AT_EVENTS;
        return 1;
    } else {
        r->at = KINETO_AT_NO_JSON;
        r->state = S_END;
        r->second = 2;
    }
    return 0;
}

static void member_byte(struct kineto_root *r, char c, int64_t off)
{
    if (gw_json_is_ws(c) || c == ',')
        return;
    if (c == '"') {
        r->state = S_KEY;
        r->key_len = 0;
        r->escaped = 0;
    } else if (c == '}') {
        r->at = KINETO_AT_END;
        r->state = S_END;
    } else {
        damage(r, off);
    }
}

static void key_byte(struct kineto_root *r, char c)
{
    if (c == '"' && !r->escaped) {
        key_done(r);
        return;
    }
    r->escaped = c == '\\' && !r->escaped;
    if (r->key_len < sizeof r->key)
        r->key[r->key_len++] = c;
}

/* After damage only the list of events is looked for. */
static void lost_byte(struct kineto_root *r, char c)
{
    if (c == lost_mark[r->matched])
        r->matched++;
    else
        r->matched = c == lost_mark[0];
    if (r->matched == sizeof lost_mark - 1) {
        memcpy(r->key, events_key, sizeof events_key);
        r->state = S_COLON;
    }
}

static int feed_byte(struct kineto_root *r, char c, int64_t off)
{
    switch (r->state) {
    case S_START:
    case S_BOM1:
    case S_BOM2: return start_byte(r, c);
    case S_MEMBER: member_byte(r, c, off); break;
    case S_KEY: key_byte(r, c); break;
    case S_COLON:
        if (c == ':')
            r->state = S_VALUE;
        else if (!gw_json_is_ws(c))
            damage(r, off);
        break;
    case S_VALUE:
        if (c == ',' || c == '}') { /* no value */
            r->state = S_MEMBER;
            member_byte(r, c, off);
        } else if (!gw_json_is_ws(c)) {
            return value_begins(r, c);
        }
        break;
    case S_INSIDE:
        if (value_byte(r, c))
            member_byte(r, c, off);
        break;
    case S_LOST: lost_byte(r, c); break;
    default:
        if (!r->second && !gw_json_is_ws(c) && c != ',')
            r->second = c == '{' || c == '[' ? 1 : 2;
        break;
    }
    return 0;
}

size_t kineto_root_feed(struct kineto_root *r, const char *text, size_t len, int64_t text_off)
{
    for (size_t i = 0; i < len; i++) {
        if (r->state == S_END && r->second)
            return len;
        if (feed_byte(r, text[i], text_off + (int64_t)i))
            return i + 1;
    }
    return len;
}

void kineto_root_events_end(struct kineto_root *r)
{
    r->at = r->bare ? KINETO_AT_END : KINETO_AT_OBJECT;
    r->state = r->bare ? S_END : S_MEMBER;
}
