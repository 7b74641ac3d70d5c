// Drives the course of a running daemon once, by setpoints of this program.
//
//   drive_lap ADDRESS [TOKEN | @FILE] [--distance METRES] [--csv FILE]
#include <cstdio>
#include <cstdlib>

#include "vehicled_client.hpp"

int main(int argc, char** argv) {
    std::string address, token, csv;
    double distance_m = HUGE_VAL;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (word == "--distance" && i + 1 < argc) distance_m = std::strtod(argv[++i], nullptr);
        else if (word == "--csv" && i + 1 < argc) csv = argv[++i];
        else (address.empty() ? address : token) = word;
    }
    try {
        token = vehicled::token_of(token);
        vehicled::Client client(address, token);
        const vehicled::Path path = client.path();
        vehicled::Subscription estimates(address, token, "state_estimate", 50.0);
        vehicled::SetpointStream setpoints(address, token, "drive_lap");
        setpoints.start();

        std::FILE* out = csv.empty() ? nullptr : std::fopen(csv.c_str(), "w");
        if (out) std::fprintf(out, "x_m,y_m,cross_track_m\n");
        const double goal_m = std::min(distance_m, path.length_m - 0.1);
        double driven_m = 0.0, at_m = NAN, squares = 0.0, first_ns = -1.0, last_ns = 0.0;
        int samples = 0;
        while (driven_m < goal_m && (path.closed || !(at_m > path.length_m - 0.3))) {
            const vehicled::Json estimate = estimates.next(vehicled::Seconds(1.0));
            const double x = estimate["x_m"].number(), y = estimate["y_m"].number(), yaw = estimate["yaw_rad"].number();
            const vehicled::Path::Place place = path.locate(x, y, at_m);
            if (!std::isnan(at_m)) driven_m += path.closed ? std::remainder(place.s_m - at_m, path.length_m) : place.s_m - at_m;
            at_m = place.s_m;
            const double ahead_m = 0.8 + 0.4 * place.speed_mps;
            setpoints.send(place.speed_mps, path.pursue(x, y, yaw, place.s_m, ahead_m));
            squares += place.cross_track_m * place.cross_track_m;
            ++samples;
            last_ns = estimate["t_ns"].number();
            if (first_ns < 0.0) first_ns = last_ns;
            if (out) std::fprintf(out, "%.4f,%.4f,%.4f\n", x, y, place.cross_track_m);
        }
        if (out) std::fclose(out);
        setpoints.stop();
        std::printf("%s: %.1f m in %.1f s, cross-track error %.3f m RMS\n", path.name.c_str(), driven_m, (last_ns - first_ns) * 1e-9,
                    std::sqrt(squares / std::max(samples, 1)));
        return 0;
    } catch (const vehicled::Error& error) {
        std::fprintf(stderr, "drive_lap: %s\n", error.what());
        return 1;
    }
}
