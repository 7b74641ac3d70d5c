/* Scans and collisions of sim_backend/scene/batch.py in machine code, with the same bits.

Every range is that of the same formula, operation by operation. Only the choice of the pairs of ray and segment differs: here
it takes whatever might meet and may not be hidden, and both discard what does not meet. */

#include <math.h>

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_CPU __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_CPU
#endif

#define PI 3.14159265358979323846
#define SLACK_RAD 5e-4 /* More than twice the error of bearing(). */
#define SLACK_M 1e-6
#define MOST_RAYS 1600
#define RINGS 64

struct walls {
    long tiles;
    const double *x_m, *y_m, *radius_m; /* Circles (tiles,) around the segments of each tile. */
    const long *first;                  /* First segment of each tile, and the number of all (tiles + 1,). */
    const double *segments_m;           /* Ends (m, 4), tile by tile. */
    const double *number;               /* Number of each segment in the scene. */
    const double *length_m;
    double *nearest_m; /* Room for a number of each tile, */
    long *order;       /* and for their order. */
    const long *place; /* Where the segment with a number is. */
};

struct scanner {
    long rays;
    double low_rad, step_rad, per_rad, reach_m;
    const double *cosine, *sine; /* Of the bearings from the vehicle (rays,). */
};

struct moving {
    long edges, circles, first_number;
    const double *edges_m, *length_m, *circles_m; /* (n, edges, 4), (n, edges), (n, circles, 3). */
};

struct view {
    double x_m, y_m, cosine, sine;
    double dx[MOST_RAYS], dy[MOST_RAYS], range_m[MOST_RAYS], number[MOST_RAYS];
};

/* Bearing of a point within 2e-4 rad; Hastings 1955, sheet 11. */
static double bearing(double x, double y)
{
    double a = fabs(x), b = fabs(y), most = a > b ? a : b, least = a > b ? b : a;
    double q = least / (most > 0.0 ? most : 1.0), s = q * q;
    double r = ((-0.0464964749 * s + 0.15931422) * s - 0.327622764) * s * q + q;
    r = b > a ? 0.5 * PI - r : r;
    r = x < 0.0 ? PI - r : r;
    return y < 0.0 ? -r : r;
}

static double seen_at(const struct view *view, double x, double y)
{
    return bearing(view->cosine * x + view->sine * y, view->cosine * y - view->sine * x);
}

FOR_EACH_CPU
static void look(struct view *view, const struct scanner *scanner)
{
    double c = view->cosine, s = view->sine;
    for (long i = 0; i < scanner->rays; i++) {
        view->dx[i] = c * scanner->cosine[i] - s * scanner->sine[i];
        view->dy[i] = s * scanner->cosine[i] + c * scanner->sine[i];
        view->range_m[i] = INFINITY;
        view->number[i] = -1.0;
    }
}

FOR_EACH_CPU
static void meet_segment(struct view *view, double ux, double uy, double vx, double vy, double reach_m, double number, long from, long to)
{
    double *restrict best = view->range_m, *restrict which = view->number;
    const double *restrict dx = view->dx, *restrict dy = view->dy;
    for (long i = from; i < to; i++) {
        double side_1 = dx[i] * uy - dy[i] * ux, side_2 = dx[i] * vy - dy[i] * vx;
        double along_1 = dx[i] * ux + dy[i] * uy, along_2 = dx[i] * vx + dy[i] * vy;
        double range = along_1 + (along_2 - along_1) * (side_1 / (side_1 - side_2));
        int crosses = (side_1 >= 0.0) != (side_2 >= 0.0);
        int nearer = (range < best[i]) | ((range == best[i]) & (number > which[i]));
        int met = crosses & (range >= 0.0) & (range <= reach_m) & nearer;
        best[i] = met ? range : best[i];
        which[i] = met ? number : which[i];
    }
}

FOR_EACH_CPU
static void meet_circle(struct view *view, double mx, double my, double r, double reach_m, double number, long rays)
{
    double *restrict best = view->range_m, *restrict which = view->number;
    const double *restrict dx = view->dx, *restrict dy = view->dy;
    double outside = mx * mx + my * my - r * r;
    for (long i = 0; i < rays; i++) {
        double along = mx * dx[i] + my * dy[i], aside = fabs(mx * dy[i] - my * dx[i]), chord = (r - aside) * (r + aside);
        double half = along + sqrt(chord > 0.0 ? chord : 0.0);
        double range = outside > 0.0 ? outside / (half > 1e-300 ? half : 1e-300) : 0.0;
        int meets = ((chord >= 0.0) & (along > 0.0)) | (outside <= 0.0);
        int nearer = (range < best[i]) | ((range == best[i]) & (number > which[i]));
        int met = meets & (range <= reach_m) & nearer;
        best[i] = met ? range : best[i];
        which[i] = met ? number : which[i];
    }
}

/* Rays from..to that lie in an interval of bearings in turn number `turn`. */
static int rays_within(const struct scanner *scanner, double low_rad, double width_rad, long turn, long *from, long *to)
{
    double begin = (low_rad - scanner->low_rad + turn * 2.0 * PI) * scanner->per_rad, end = begin + width_rad * scanner->per_rad;
    if (!(end >= 0.0 && begin < (double)scanner->rays))
        return 0;
    *from = begin <= 0.0 ? 0 : (long)begin;
    *to = end >= (double)(scanner->rays - 1) ? scanner->rays : (long)end + 1;
    return *from < *to;
}

/* Meet a segment whose ends are relative to the scanner, and which is nowhere nearer than `nearest_m`. */
static void segment(struct view *view, const struct scanner *scanner, double ux, double uy, double vx, double vy, double nearest_m,
                    double number, long first_turn, long last_turn)
{
    double a = seen_at(view, ux, uy), turned = seen_at(view, vx, vy) - a;
    turned = turned > PI ? turned - 2.0 * PI : turned < -PI ? turned + 2.0 * PI : turned;
    double low = (turned < 0.0 ? a + turned : a) - SLACK_RAD, width = fabs(turned) + 2.0 * SLACK_RAD;
    /* With the scanner on it, rounding decides the side. */
    if (width > PI - 0.01 || (ux == 0.0 && uy == 0.0) || (vx == 0.0 && vy == 0.0)) {
        meet_segment(view, ux, uy, vx, vy, scanner->reach_m, number, 0, scanner->rays);
        return;
    }
    for (long turn = first_turn; turn <= last_turn; turn++) {
        long from, to;
        if (!rays_within(scanner, low, width, turn, &from, &to))
            continue;
        while (from < to && view->range_m[from] < nearest_m)
            from++;
        while (from < to && view->range_m[to - 1] < nearest_m)
            to--;
        if (from < to)
            meet_segment(view, ux, uy, vx, vy, scanner->reach_m, number, from, to);
    }
}

/* True if some ray that may meet a circle has met nothing nearer. */
static int visible(const struct view *view, const struct scanner *scanner, double x, double y, double radius_m, double nearest_m,
                   long first_turn, long last_turn)
{
    double ratio = radius_m / sqrt(x * x + y * y);
    if (!(ratio < 0.99))
        return 1;
    double half = ratio + 0.5708 * ratio * ratio * ratio + SLACK_RAD, low = seen_at(view, x, y) - half;
    for (long turn = first_turn; turn <= last_turn; turn++) {
        long from, to;
        if (!rays_within(scanner, low, 2.0 * half, turn, &from, &to))
            continue;
        for (long i = from; i < to; i++)
            if (!(view->range_m[i] < nearest_m))
                return 1;
    }
    return 0;
}

FOR_EACH_CPU
static void distances(const struct walls *walls, double x_m, double y_m)
{
    for (long k = 0; k < walls->tiles; k++) {
        double dx = walls->x_m[k] - x_m, dy = walls->y_m[k] - y_m;
        walls->nearest_m[k] = sqrt(dx * dx + dy * dy) - walls->radius_m[k] - SLACK_M;
    }
}

static long ring(double nearest_m, double per_m)
{
    double r = nearest_m * per_m;
    return r > 0.0 ? (r < RINGS ? (long)r : RINGS - 1) : 0;
}

/* Tiles within reach, the near ones first, so that they hide those behind them. Returns how many. */
static long near_first(const struct walls *walls, double x_m, double y_m, double reach_m)
{
    long starts[RINGS + 1] = {0};
    double per_m = RINGS / reach_m;
    distances(walls, x_m, y_m);
    for (long k = 0; k < walls->tiles; k++)
        if (walls->nearest_m[k] <= reach_m)
            starts[ring(walls->nearest_m[k], per_m) + 1]++;
    for (long r = 0; r < RINGS; r++)
        starts[r + 1] += starts[r];
    long count = starts[RINGS];
    for (long k = 0; k < walls->tiles; k++)
        if (walls->nearest_m[k] <= reach_m)
            walls->order[starts[ring(walls->nearest_m[k], per_m)]++] = k;
    return count;
}

static double slant(const struct view *view, long ray, const double *ends_m, double length_m)
{
    double ux = ends_m[0] - view->x_m, uy = ends_m[1] - view->y_m, vx = ends_m[2] - view->x_m, vy = ends_m[3] - view->y_m;
    double side_1 = view->dx[ray] * uy - view->dy[ray] * ux, side_2 = view->dx[ray] * vy - view->dy[ray] * vx;
    double cosine = fabs(side_1 - side_2) / length_m;
    return cosine < 1.0 ? cosine : 1.0;
}

static double slant_of_circle(const struct view *view, long ray, const double *circle_m)
{
    double mx = circle_m[0] - view->x_m, my = circle_m[1] - view->y_m, r = circle_m[2];
    double aside = fabs(mx * view->dy[ray] - my * view->dx[ray]), chord = (r - aside) * (r + aside);
    return mx * mx + my * my - r * r > 0.0 ? sqrt(chord > 0.0 ? chord : 0.0) / r : 1.0;
}

/* Ranges and cosines of the incidence (n, rays) of scanners at x_m, y_m (n,), turned by the angles of cosine and sine. */
void scene_scan(const struct walls *walls, const struct scanner *scanner, const struct moving *moving, long n,
                const double *x_m, const double *y_m, const double *cosine, const double *sine, double *range_m, double *slant_cosine)
{
    struct view view;
    long rays = scanner->rays;
    double field_rad = (rays - 1) * scanner->step_rad, reach_m = scanner->reach_m;
    /* Bearings are -pi to pi, and an interval of them reaches up to half a turn farther; these turns bring them into the field. */
    long first_turn = (long)ceil((scanner->low_rad - 2.0 * PI - 0.01) / (2.0 * PI));
    long last_turn = (long)floor((scanner->low_rad + field_rad + 2.0 * PI + 0.01) / (2.0 * PI));
    for (long v = 0; v < n; v++) {
        view.x_m = x_m[v], view.y_m = y_m[v], view.cosine = cosine[v], view.sine = sine[v];
        look(&view, scanner);
        const double *edges_m = moving->edges_m + v * moving->edges * 4, *circles_m = moving->circles_m + v * moving->circles * 3;
        for (long k = 0; k < moving->edges; k++) {
            const double *e = edges_m + 4 * k;
            segment(&view, scanner, e[0] - view.x_m, e[1] - view.y_m, e[2] - view.x_m, e[3] - view.y_m, 0.0,
                    (double)(moving->first_number + k), first_turn, last_turn);
        }
        for (long k = 0; k < moving->circles; k++) {
            const double *e = circles_m + 3 * k;
            meet_circle(&view, e[0] - view.x_m, e[1] - view.y_m, e[2], reach_m, (double)(moving->first_number + moving->edges + k), rays);
        }
        long count = near_first(walls, view.x_m, view.y_m, reach_m);
        for (long j = 0; j < count; j++) {
            long tile = walls->order[j];
            double x = walls->x_m[tile] - view.x_m, y = walls->y_m[tile] - view.y_m, nearest_m = walls->nearest_m[tile];
            if (!visible(&view, scanner, x, y, walls->radius_m[tile], nearest_m, first_turn, last_turn))
                continue;
            for (long k = walls->first[tile]; k < walls->first[tile + 1]; k++) {
                const double *e = walls->segments_m + 4 * k;
                segment(&view, scanner, e[0] - view.x_m, e[1] - view.y_m, e[2] - view.x_m, e[3] - view.y_m, nearest_m,
                        walls->number[k], first_turn, last_turn);
            }
        }
        for (long i = 0; i < rays; i++) {
            long number = (long)view.number[i], own = number - moving->first_number;
            double found = 1.0;
            if (own >= moving->edges)
                found = slant_of_circle(&view, i, circles_m + 3 * (own - moving->edges));
            else if (own >= 0)
                found = slant(&view, i, edges_m + 4 * own, moving->length_m[v * moving->edges + own]);
            else if (number >= 0)
                found = slant(&view, i, walls->segments_m + 4 * walls->place[number], walls->length_m[walls->place[number]]);
            range_m[v * rays + i] = view.range_m[i];
            slant_cosine[v * rays + i] = found;
        }
    }
}

/* True if a segment, relative to a vehicle and turned with it, enters its outline. */
static int enters(double c, double s, double ux, double uy, double vx, double vy, const double *box_m)
{
    double enter = 0.0, leave = 1.0;
    double starts[2] = {c * ux + s * uy, c * uy - s * ux}, ends[2] = {c * vx + s * vy, c * vy - s * vx};
    double lows[2] = {box_m[0], -box_m[2]}, highs[2] = {box_m[1], box_m[2]};
    for (int k = 0; k < 2; k++) {
        double step = ends[k] - starts[k];
        if (step == 0.0) {
            if (!(starts[k] >= lows[k] && starts[k] <= highs[k]))
                return 0;
            continue;
        }
        double a = (lows[k] - starts[k]) / step, b = (highs[k] - starts[k]) / step, low = a < b ? a : b, high = a < b ? b : a;
        enter = enter > low ? enter : low;
        leave = leave < high ? leave : high;
    }
    return enter <= leave;
}

/* True (n,) where a segment of the walls or a moving edge enters the outline of a vehicle at x_m, y_m (n,). */
void scene_collides(const struct walls *walls, const struct moving *moving, long n, const double *x_m, const double *y_m,
                    const double *cosine, const double *sine, const double *box_m, double most_m, unsigned char *struck)
{
    for (long v = 0; v < n; v++) {
        int met = 0;
        distances(walls, x_m[v], y_m[v]);
        for (long tile = 0; tile < walls->tiles && !met; tile++) {
            if (walls->nearest_m[tile] > most_m)
                continue;
            for (long k = walls->first[tile]; k < walls->first[tile + 1] && !met; k++) {
                const double *e = walls->segments_m + 4 * k;
                met = enters(cosine[v], sine[v], e[0] - x_m[v], e[1] - y_m[v], e[2] - x_m[v], e[3] - y_m[v], box_m);
            }
        }
        for (long k = 0; k < moving->edges && !met; k++) {
            const double *e = moving->edges_m + (v * moving->edges + k) * 4;
            met = enters(cosine[v], sine[v], e[0] - x_m[v], e[1] - y_m[v], e[2] - x_m[v], e[3] - y_m[v], box_m);
        }
        struck[v] = (unsigned char)met;
    }
}
