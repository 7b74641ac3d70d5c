// Steps a simulation of `vehicled serve simulation` round its course, by setpoints of this program.
//
//   step_lap ADDRESS [TOKEN | @FILE] [--distance METRES] [--seed N] [--csv FILE]
#include <cstdio>
#include <cstdlib>

#include "vehicled_client.hpp"

int main(int argc, char** argv) {
    std::string address, token, csv;
    double distance_m = HUGE_VAL;
    long long seed = 1;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (word == "--distance" && i + 1 < argc) distance_m = std::strtod(argv[++i], nullptr);
        else if (word == "--seed" && i + 1 < argc) seed = std::strtoll(argv[++i], nullptr, 10);
        else if (word == "--csv" && i + 1 < argc) csv = argv[++i];
        else (address.empty() ? address : token) = word;
    }
    try {
        token = vehicled::token_of(token);
        vehicled::Simulation simulation(address, token);
        const vehicled::Path path = simulation.path();
        vehicled::Json seen = simulation.reset(seed);
        std::FILE* out = csv.empty() ? nullptr : std::fopen(csv.c_str(), "w");
        if (out) std::fprintf(out, "x_m,y_m,cross_track_m\n");
        const double goal_m = std::min(distance_m, path.length_m - 0.1), begin_s = seen["time_s"].number();
        double driven_m = 0.0, at_m = NAN, squares = 0.0;
        int steps = 0;
        while (driven_m < goal_m && (path.closed || !(at_m > path.length_m - 0.3))) {
            if (seen["over"].boolean()) throw vehicled::Error("the drive is over: " + seen["why"].text());
            const vehicled::Json &estimate = seen["estimate"], &truth = seen["truth"];
            const double x = estimate["x_m"].number(), y = estimate["y_m"].number();
            const vehicled::Path::Place place = path.locate(x, y, at_m);
            if (!std::isnan(at_m)) driven_m += path.closed ? std::remainder(place.s_m - at_m, path.length_m) : place.s_m - at_m;
            at_m = place.s_m;
            const double off_m = path.locate(truth["x_m"].number(), truth["y_m"].number(), at_m).cross_track_m;
            squares += off_m * off_m;
            ++steps;
            if (out) std::fprintf(out, "%.4f,%.4f,%.4f\n", truth["x_m"].number(), truth["y_m"].number(), off_m);
            const double curvature = path.pursue(x, y, estimate["yaw_rad"].number(), place.s_m, 0.8 + 0.4 * place.speed_mps);
            // Five periods with one setpoint; after 0.2 s it would be stale.
            seen = simulation.step(place.speed_mps, curvature, seen["time_s"].number() + 5.0 * simulation.period_s);
        }
        if (out) std::fclose(out);
        std::printf("%s: %.1f m in %.1f s of simulated time, %d steps, true cross-track error %.3f m RMS\n", path.name.c_str(), driven_m,
                    seen["time_s"].number() - begin_s, steps, std::sqrt(squares / std::max(steps, 1)));
        return 0;
    } catch (const vehicled::Error& error) {
        std::fprintf(stderr, "step_lap: %s\n", error.what());
        return 1;
    }
}
