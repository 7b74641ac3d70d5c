classdef Client < vehicled.Session
  % Requests to a running daemon: client = vehicled.Client('tcp:127.0.0.1:7714', token); client.status()

  methods
    function obj = Client(address, token, timeout_s)
      if nargin < 3
        timeout_s = 5;
      end
      obj@vehicled.Session(address, token, timeout_s, 'control');
    end

    function found = status(obj)
      found = ask(obj, struct('do', 'status'));
      found = found.status;
    end

    function request(obj, action, origin)
      % 'arm', 'disarm', 'drive', 'offboard', 'stop', 'emergency_stop', 'reset', ...
      if nargin < 3
        origin = 'MATLAB client';
      end
      ask(obj, struct('do', 'request', 'action', action, 'origin', origin));
    end
  end
end
