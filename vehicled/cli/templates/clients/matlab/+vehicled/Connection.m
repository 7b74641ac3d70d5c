classdef Connection < handle
  % Lines to and from a server of vehicled, each with a time limit.
  %
  % An address is 'tcp:HOST:PORT': MATLAB has no Unix sockets. Every failure is an error with an identifier:
  %   vehicled:connection  no server, or the connection has ended
  %   vehicled:timeout     no answer in time; the connection is of no more use
  %   vehicled:refused     the server refused a request; the text is its reason
  %   vehicled:protocol    the other side does not speak this protocol
  %   vehicled:argument    a value that is not sent: not finite, or out of range
  %   vehicled:leaseLost   the vehicle no longer follows this program's setpoints

  properties (SetAccess = private)
    address
    timeout_s
  end
  properties (Access = private)
    socket = []
    bytes = zeros(1, 0, 'uint8')
    broken = 'the connection was closed'
  end

  methods
    function obj = Connection(address, timeout_s)
      parts = regexp(char(address), '^tcp:(.+):(\d{1,5})$', 'tokens', 'once');
      if isempty(parts)
        error('vehicled:argument', '"%s" is no address: use tcp:HOST:PORT', char(address));
      end
      obj.address = char(address);
      obj.timeout_s = timeout_s;
      host = parts{1};
      port = str2double(parts{2});
      try
        if exist('OCTAVE_VERSION', 'builtin')
          obj.socket = tcpclient(host, port, 'Timeout', timeout_s);
        else
          obj.socket = tcpclient(host, port, 'Timeout', timeout_s, 'ConnectTimeout', timeout_s);
        end
      catch cause
        error('vehicled:connection', ['no server answers at %s: %s; start vehicled serve control ' ...
              'or vehicled serve simulation'], obj.address, cause.message);
      end
    end

    function close(obj)
      % Close the connection. A stream of setpoints that ends so stops the vehicle.
      obj.socket = [];
    end

    function send(obj, line)
      % Send a line.
      check(obj);
      put(obj, unicode2native([line char(10)], 'UTF-8'));
    end

    function found = answer(obj, timeout_s)
      % Wait for the next answer.
      if nargin < 2
        timeout_s = obj.timeout_s;
      end
      found = receive(obj, timeout_s);
      if isempty(found)
        give_up(obj, 'vehicled:timeout', sprintf(['no answer from %s within %g s: it may be frozen, or has closed the ' ...
                'connection without giving a reason'], obj.address, timeout_s));
      end
    end

    function found = receive(obj, timeout_s)
      % Return the next answer; [] if none comes in the time. 0 s asks for what is there already.
      check(obj);
      found = [];
      began = tic;
      probed_s = 0;
      while true
        at = find(obj.bytes == 10, 1);
        if ~isempty(at)
          line = native2unicode(obj.bytes(1:at - 1), 'UTF-8');
          obj.bytes = obj.bytes(at + 1:end);
          found = checked(obj, line);
          return
        end
        if numel(obj.bytes) > 2^23
          give_up(obj, 'vehicled:protocol', [obj.address ' sends a line without an end']);
        end
        try
          count = obj.socket.NumBytesAvailable;
          if count > 0
            data = read(obj.socket, count, 'uint8');
            obj.bytes = [obj.bytes uint8(data(:)')];
          end
        catch cause
          give_up(obj, 'vehicled:connection', sprintf('%s has closed the connection: %s', obj.address, cause.message));
        end
        if count <= 0
          waited_s = toc(began);
          if waited_s >= timeout_s
            return
          end
          % A connection that the other side has closed shows only when something is sent; empty lines are ignored.
          if waited_s > probed_s + 1
            probed_s = waited_s;
            put(obj, uint8(10));
          end
          pause(0.001);
        end
      end
    end
  end

  methods (Access = private)
    function put(obj, data)
      failed = '';
      try
        if exist('OCTAVE_VERSION', 'builtin')
          if write(obj.socket, data) < numel(data)
            failed = 'it accepts nothing more';
          end
        else
          write(obj.socket, data);
        end
      catch cause
        failed = cause.message;
      end
      if ~isempty(failed)
        % The last line of the server gives the reason.
        pause(0.05);
        while ~isempty(receive(obj, 0))
        end
        give_up(obj, 'vehicled:connection', sprintf('%s has closed the connection: %s', obj.address, failed));
      end
    end

    function found = checked(obj, line)
      try
        found = jsondecode(line);
      catch
        found = [];
      end
      if ~(isstruct(found) && isscalar(found) && isfield(found, 'ok') && islogical(found.ok) && isscalar(found.ok))
        give_up(obj, 'vehicled:protocol', [obj.address ' does not answer as vehicled does']);
      end
      why = 'no reason given';
      if isfield(found, 'why') && ischar(found.why)
        why = found.why;
      end
      if isfield(found, 'ended') && isequal(found.ended, true)
        give_up(obj, 'vehicled:connection', sprintf('%s has ended the connection: %s', obj.address, why));
      end
      if ~found.ok
        error('vehicled:refused', '%s', why);
      end
    end

    function give_up(obj, identifier, why)
      obj.broken = why;
      obj.socket = [];
      error(identifier, '%s', why);
    end

    function check(obj)
      if isempty(obj.socket)
        error('vehicled:connection', 'connect again: %s', obj.broken);
      end
    end
  end
end
