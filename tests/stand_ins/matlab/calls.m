function calls(address, token, played, played_token)
  % Make the calls that the programs do not make. Each line that it prints is a failure.
  s = vehicled.Simulation(address, token);
  began = s.reset(3);
  seen = s.step([], [], began.time_s + 0.5);
  assert(strcmp(seen.mode, 'AUTO') && abs(seen.time_s - began.time_s - 0.5) < 1e-6);
  seen = s.step();
  assert(abs(seen.time_s - began.time_s - 0.5 - s.period_s) < 1e-6);
  scan = jsondecode('{"ranges_m": [1.5, null, null, null], "rays": "ronx"}');
  assert(isequaln(vehicled.scan_ranges(scan), [1.5; Inf; -Inf; NaN]));
  assert(isnan(vehicled.scan_ranges(jsondecode('{"ranges_m": [null]}'))));
  assert(isfield(s.observe(true), 'scan') && ~isfield(s.observe(), 'scan'));
  refuses('vehicled:argument', @() s.step(NaN, 0));
  refuses('vehicled:argument', @() s.step(1, Inf));
  refuses('vehicled:argument', @() s.step([1 2], 0));
  refuses('vehicled:argument', @() s.step('a', 0));
  refuses('vehicled:argument', @() s.step(1));
  refuses('vehicled:refused', @() s.ask(struct('do', 'nonsense')));
  seen = s.step(0.5, 0.1);
  assert(strcmp(seen.mode, 'OFFBOARD'));
  refuses('vehicled:argument', @() vehicled.Client('nonsense', ''));
  refuses('vehicled:argument', @() vehicled.Client('unix:/tmp/x', ''));
  refuses('vehicled:connection', @() vehicled.Client('tcp:127.0.0.1:1', ''));
  refuses('vehicled:protocol', @() vehicled.Simulation(played, played_token));
  close(s);
  refuses('vehicled:connection', @() s.observe());
  p = vehicled.SetpointStream(played, played_token);
  start(p);
  refuses('vehicled:argument', @() send(p, NaN, 0));
  refuses('vehicled:argument', @() send(p, 0, 1e9));
  stop(p);
  assert(strcmp(p.mode, 'STANDBY'));
  close(p);
end

function refuses(identifier, call)
  try
    call();
    printf('%s: no error\n', identifier);
  catch cause
    if ~strcmp(cause.identifier, identifier)
      printf('%s: %s: %s\n', identifier, cause.identifier, cause.message);
    end
  end
end
