classdef Simulation < vehicled.Session
  % A simulation of vehicled serve simulation. Time stands still between two steps.
  %   simulation = vehicled.Simulation('tcp:127.0.0.1:7715', token);
  %   seen = simulation.reset(3);
  %   seen = simulation.step(0.8, 0.2);

  properties (SetAccess = private)
    period_s      % length of a step
  end

  methods
    function obj = Simulation(address, token, timeout_s)
      if nargin < 3
        timeout_s = 30;
      end
      obj@vehicled.Session(address, token, timeout_s, 'step');
      obj.period_s = obj.greeting.period_s;
    end

    function seen = reset(obj, seed)
      % Begin the drive again, and return the first observation.
      request = struct('do', 'reset');
      if nargin > 1
        request.seed = seed;
      end
      seen = ask(obj, request);
      seen = seen.observation;
    end

    function seen = step(obj, speed_mps, curvature_per_m, until_s)
      % Go on for one period, or until a time. Without a setpoint (or with []) the profile's controller drives.
      line = '{"do":"step"';
      if nargin > 1 && ~isempty(speed_mps)
        if nargin < 3
          error('vehicled:argument', 'a setpoint has a speed and a curvature');
        end
        vehicled.check('speed_mps', speed_mps, 100);
        vehicled.check('curvature_per_m', curvature_per_m, 100);
        line = sprintf('%s,"speed_mps":%.12g,"curvature_per_m":%.12g', line, speed_mps, curvature_per_m);
      end
      if nargin > 3
        vehicled.check('until_s', until_s, 1e9);
        line = sprintf('%s,"until_s":%.12g', line, until_s);
      end
      send(obj.connection, [line '}']);
      seen = answer(obj.connection);
      seen = seen.observation;
    end

    function seen = observe(obj, scan)
      % Return the observation without a step; with scan = true also the newest laser scan.
      if nargin < 2
        scan = false;
      end
      seen = ask(obj, struct('do', 'observe', 'scan', logical(scan)));
      seen = seen.observation;
    end
  end
end
