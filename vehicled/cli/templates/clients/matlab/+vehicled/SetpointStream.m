classdef SetpointStream < handle
  % Stream of setpoints that holds the lease. A second connection watches the mode, so that the loss of the lease is the error
  % vehicled:leaseLost of the next send.

  properties (SetAccess = private)
    mode = ''
    why = ''
  end
  properties (Access = private)
    client
    watch
    origin
    timeout_s
    waits = ''
    sequence = 0
    driving = false
    was_armed = false
    heard
  end

  methods
    function obj = SetpointStream(address, token, origin, timeout_s)
      if nargin < 3
        origin = 'MATLAB client';
      end
      if nargin < 4
        timeout_s = 5;
      end
      obj.client = vehicled.Client(address, token, timeout_s);
      obj.watch = vehicled.Client(address, token, timeout_s);
      obj.origin = origin;
      obj.timeout_s = timeout_s;
      send(obj.watch.connection, '{"do":"watch","rate_hz":20}');
      update(obj, answer(obj.watch.connection));
    end

    function start(obj, timeout_s)
      % Arm the vehicle and enter OFFBOARD, standing still meanwhile; from a drive along the course it changes over.
      if nargin < 2
        timeout_s = 20;
      end
      began = tic;
      armed = false;
      asked = false;
      obj.was_armed = false;
      while ~strcmp(obj.mode, 'OFFBOARD')
        if (obj.was_armed || asked) && ~any(strcmp(obj.mode, {'ARMED', 'AUTO'}))
          error('vehicled:leaseLost', 'the vehicle does not follow the setpoints: %s: %s', obj.mode, obj.why);
        end
        if toc(began) > timeout_s
          error('vehicled:timeout', 'the drive does not begin: %s: %s%s', obj.mode, obj.why, obj.waits);
        end
        send(obj, 0, 0);
        ready = any(strcmp(obj.mode, {'ARMED', 'AUTO'}));
        if ~armed && ~ready && ~strcmp(obj.mode, 'OFFBOARD')
          status(obj.client);  % answered in order: without the lease the refusal comes first, and nothing is armed
          request(obj.client, 'arm', obj.origin);
          armed = true;
        end
        if ~asked && ready
          request(obj.client, 'offboard', obj.origin);
          asked = true;
        end
        pause(0.05);
      end
      obj.driving = true;
    end

    function send(obj, speed_mps, curvature_per_m)
      % Send a setpoint: speed, and the curvature of the path, positive left. Call it at 10 to 100 Hz; after 0.2 s without one
      % the vehicle brakes.
      vehicled.check('speed_mps', speed_mps, 100);
      vehicled.check('curvature_per_m', curvature_per_m, 100);
      obj.sequence = obj.sequence + 1;
      send(obj.client.connection, sprintf(['{"do":"setpoint","speed_mps":%.12g,"curvature_per_m":%.12g,"sequence":%d,' ...
           '"origin":%s}'], speed_mps, curvature_per_m, obj.sequence, jsonencode(obj.origin)));
      while ~isempty(receive(obj.client.connection, 0))  % only a refusal is answered, and is an error
      end
      while true
        found = receive(obj.watch.connection, 0);
        if isempty(found)
          break
        end
        update(obj, found);
      end
      if toc(obj.heard) > obj.timeout_s
        error('vehicled:timeout', 'no state from the daemon within %g s: it may be frozen', obj.timeout_s);
      end
      if obj.driving && ~strcmp(obj.mode, 'OFFBOARD')
        obj.driving = false;
        error('vehicled:leaseLost', 'the vehicle no longer follows the setpoints: %s: %s', obj.mode, obj.why);
      end
    end

    function stop(obj, timeout_s)
      % Brake to a standstill and disarm.
      if nargin < 2
        timeout_s = 10;
      end
      obj.driving = false;
      request(obj.client, 'disarm', obj.origin);
      began = tic;
      while ~strcmp(obj.mode, 'STANDBY')
        if toc(began) > timeout_s
          error('vehicled:timeout', 'the vehicle does not come to rest: %s: %s', obj.mode, obj.why);
        end
        try
          update(obj, answer(obj.watch.connection));
        catch cause
          if strcmp(cause.identifier, 'vehicled:connection')
            return  % the run has ended with the drive
          end
          rethrow(cause);
        end
      end
    end

    function close(obj)
      % Close both connections. A vehicle that follows the setpoints stops.
      close(obj.client);
      close(obj.watch);
    end
  end

  methods (Access = private)
    function update(obj, found)
      status = found.status;
      obj.mode = status.mode;
      obj.why = status.why;
      obj.was_armed = obj.was_armed || any(strcmp(obj.mode, {'ARMED', 'OFFBOARD'}));
      obj.waits = '';
      if ~isempty(status.waiting_for)
        obj.waits = ['; waits for ' strjoin(cellstr(status.waiting_for), '; ')];
      end
      obj.heard = tic;
    end
  end
end
