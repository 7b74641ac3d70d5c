// Makes the calls that the programs of vehicled new client do not make. Each line that it prints is a failure.
#include <iostream>
#include "vehicled_client.hpp"
using namespace vehicled;
template <typename Kind, typename Call>
void refuses(const char* name, Call call) {
    try {
        call();
    } catch (const Kind& error) {
        return;
    } catch (const std::exception& error) {
        std::cout << name << ": another error: " << error.what() << std::endl;
        return;
    }
    std::cout << name << ": no error" << std::endl;
}
void holds(const char* name, bool value) {
    if (!value) std::cout << name << ": false" << std::endl;
}
int main(int, char** argv) {
    Simulation simulation(argv[1], argv[2]);
    const double began_s = simulation.reset(3)["time_s"].number();
    const Json driven = simulation.step(began_s + 0.5);
    holds("the controller drives", driven["mode"].text() == "AUTO");
    holds("until a time", std::fabs(driven["time_s"].number() - began_s - 0.5) < 1e-6);
    const double next_s = simulation.step()["time_s"].number();
    holds("one period", std::fabs(next_s - began_s - 0.5 - simulation.period_s) < 1e-6);
    holds("a scan on request", simulation.observe(true).find("scan") != nullptr);
    holds("no scan", simulation.observe().find("scan") == nullptr);
    refuses<ArgumentError>("NaN", [&] { simulation.step(NAN, 0.0); });
    refuses<ArgumentError>("infinite", [&] { simulation.step(0.0, HUGE_VAL); });
    refuses<RefusedError>("too fast", [&] { simulation.step(1e6, 0.0); });
    holds("goes on after refusals", simulation.step(0.5, 0.1)["mode"].text() == "OFFBOARD");
    refuses<ProtocolError>("no such field", [&] { simulation.observe()["nonsense"]; });
    refuses<ProtocolError>("no number", [&] { simulation.observe()["mode"].number(); });
    for (const char* address : {"", "nonsense", "tcp:", "tcp:127.0.0.1", "tcp:127.0.0.1:http", "unix:", "udp:1.2.3.4:5"})
        refuses<ArgumentError>(address, [&] { Client client(address); });
    refuses<ArgumentError>("a long path", [] { Client client("unix:" + std::string(200, 'x')); });
    refuses<ConnectionError>("no such socket", [] { Client client("unix:/nonexistent/v.sock"); });
    refuses<ConnectionError>("a port beyond all", [] { Client client("tcp:127.0.0.1:99999"); });
    const std::vector<double> ranges = scan_ranges(Json::parse(
        "{\"ranges_m\": [1.5, null, null, null], \"rays\": \"ronx\"}"));
    holds("ranges", ranges[0] == 1.5 && ranges[1] == HUGE_VAL && ranges[2] == -HUGE_VAL && std::isnan(ranges[3]));
    holds("ranges of an older server", std::isnan(scan_ranges(Json::parse("{\"ranges_m\": [null]}"))[0]));
    refuses<ProtocolError>("another length", [] { scan_ranges(Json::parse("{\"ranges_m\": [1], \"rays\": \"\"}")); });
    simulation.connection().close();
    refuses<ConnectionError>("after the end", [&] { simulation.observe(); });

    SetpointStream setpoints(argv[3], argv[4]);
    setpoints.start();
    setpoints.send_wheel_angle(0.5, 0.1);
    refuses<ArgumentError>("a speed that is not finite", [&] { setpoints.send(NAN, 0.0); });
    refuses<ArgumentError>("a wheel angle that is none", [&] { setpoints.send_wheel_angle(0.0, 3.0); });
    Subscription estimates(argv[3], argv[4], "state_estimate", 50.0);
    holds("a message", std::isfinite(estimates.next(Seconds(10.0))["x_m"].number()));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    holds("the newest", estimates.newest().has_value());
    setpoints.stop();
    holds("standby", setpoints.mode() == "STANDBY");
}
