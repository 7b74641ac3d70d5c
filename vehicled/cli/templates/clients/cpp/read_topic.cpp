// Prints messages of a topic of a running daemon: one number each, or the count of an array.
//
//   read_topic ADDRESS TOPIC FIELD [COUNT] [TOKEN | @FILE]
//   read_topic unix:/run/.../art.sock state_estimate speed_mps 20
#include <cstdio>
#include <cstdlib>

#include "vehicled_client.hpp"

int main(int argc, char** argv) {
    if (argc < 4) return std::fprintf(stderr, "read_topic ADDRESS TOPIC FIELD [COUNT] [TOKEN | @FILE]\n"), 2;
    try {
        vehicled::Subscription topic(argv[1], vehicled::token_of(argc > 5 ? argv[5] : ""), argv[2], 100.0);
        for (int left = argc > 4 ? std::atoi(argv[4]) : 10; left > 0; --left) {
            const vehicled::Json message = topic.next(vehicled::Seconds(5.0));
            const vehicled::Json& field = message[argv[3]];
            if (field.kind() == vehicled::Json::Kind::array) std::printf("%zu values\n", field.array().size());
            else if (field.kind() == vehicled::Json::Kind::text) std::printf("%s\n", field.text().c_str());
            else std::printf("%.6f\n", field.number());
        }
        return 0;
    } catch (const vehicled::Error& error) {
        std::fprintf(stderr, "read_topic: %s\n", error.what());
        return 1;
    }
}
