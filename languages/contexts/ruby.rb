# SPDX-License-Identifier: MIT
#
# A Ruby that is kept between cells of code.
#
# Cells are evaluated in TOPLEVEL_BINDING: local variables stay, as all else does. The value of the last expression is
# the result, and in _; assignments, definitions and nil are none. Objects that answer to to_html, to_markdown,
# to_latex, to_svg, to_png or to_jpeg are shown so too, the result by itself, any other by
#
#	Nsbox.display(object)
#	Nsbox.display("text/html" => "<b>bold</b>", "image/png" => bytes)
#
# Interrupts. The trap of SIGINT raises Interrupt in the main thread, which has that masked but where a cell runs. What
# came too late for a cell is thrown away before its end is said.
#
# `exit` ends the cell, not the context, and is an error where its status is not 0; at_exit is for the end of the
# context. `exit!` and `exec` end the context. A fork that comes back out of the cell ends there.

module Nsbox
  # Shows an object, or else representations by their MIME types, while a cell runs.
  def self.display(*objects, **representations)
    if objects.size != (representations.empty? ? 1 : 0)
      raise ArgumentError, "expected one object, or representations by their MIME types"
    end

    @context.display(objects.first, representations)
    nil
  end
end

class Nsbox::Context
  REQUESTS = 0
  REPLIES = 3
  F_DUPFD_CLOEXEC = 1030
  MAX_TEXT = 64 << 10
  MAX_HTML = 256 << 10
  MAX_JSON = 64 << 10
  MAX_IMAGE = 4 << 20
  MAX_DISPLAYS = 39 # and the result
  MIME = %r{\A[a-z]+/[A-Za-z0-9][A-Za-z0-9.+-]*\z}
  MAX_INTEGER = 1 << 53
  MAX_DEPTH = 100
  METHODS = {
    to_html: "text/html", to_markdown: "text/markdown", to_latex: "text/latex", to_svg: "image/svg+xml",
    to_png: "image/png", to_jpeg: "image/jpeg"
  }.freeze
  # What an expression is not, although it has a value.
  STATEMENTS = %i[assign opassign massign def defs class module sclass alias undef var_alias BEGIN END].freeze

  NotJson = Class.new(StandardError)

  def initialize
    @requests = take(REQUESTS, "rb")
    @replies = take(REPLIES, "wb")
    $stdin.reopen(File::NULL)
    $stdout.sync = $stderr.sync = true
    @replies.sync = true
    @lock = Mutex.new
    @pid = Process.pid
    @trap = @own_trap = proc { Thread.main.raise(Interrupt, "") if @cell && Process.pid == @pid }
  end

  # Serves until the requests end.
  def run
    Thread.handle_interrupt(Interrupt => :never) do
      trap("INT", @own_trap)
      reply("ready")
      while (header = @requests.gets)
        cell, length = header.match(/\Arun (\d+) (\d+)\n\z/)&.captures&.map(&:to_i)
        abort("#{__FILE__}: no request: #{header.inspect}") unless cell
        code = length.zero? ? "" : @requests.read(length)
        abort("#{__FILE__}: a request without its end") if code.to_s.bytesize < length
        serve(cell, code.dup.force_encoding(Encoding::UTF_8))
      end
    end
  end

  def display(object, representations)
    unknown = representations.keys.grep_v(MIME).first
    raise ArgumentError, "#{unknown.inspect} is no MIME type" if unknown

    representations = representations.empty? ? represent(object) : representations.transform_values(&:to_s)
    @lock.synchronize do
      raise "Nsbox.display: no cell runs" unless @cell

      @displays += 1
      show("display", representations) if @displays <= MAX_DISPLAYS
    end
  end

  private

  # A private copy of a descriptor, which is closed.
  def take(number, mode)
    original = IO.for_fd(number, mode)
    copy = IO.for_fd(original.fcntl(F_DUPFD_CLOEXEC, 10), mode)
    number == REQUESTS ? original.autoclose = false : original.close
    copy
  end

  # --- a cell ---

  def serve(cell, code)
    @name = "<cell #{cell}>"
    @values = @displays = 0
    @cell = cell
    $PROGRAM_NAME = @name # so that __FILE__ is it
    trap("INT", @trap)
    status, error = evaluate(code)
    leave_fork(error) unless Process.pid == @pid
    before = trap("INT", @own_trap)
    @trap = before == "DEFAULT" ? @own_trap : before
    flush
    @lock.synchronize do
      if @displays > MAX_DISPLAYS
        show("display", "text/plain" => "#{@displays - MAX_DISPLAYS} more were displayed, too many for one cell")
      end
      status = describe(error) if error
      show("result", @result) if status == "ok" && @result
      reply("error #{cell} #{@error[0]} #{@error[1..].map(&:bytesize).join(" ")}", *@error[1..]) if @error
      @result = @error = @cell = nil
      forget_interrupts
      reply("end #{cell} #{status}")
    end
  end

  # Returns the status, and what was raised. That the result is represented can fail, and be interrupted.
  def evaluate(code)
    Thread.handle_interrupt(Interrupt => :immediate) do
      value = TOPLEVEL_BINDING.eval(code, @name, 1)
      TOPLEVEL_BINDING.local_variable_set(:_, value)
      @result = represent(value) if !nil.equal?(value) && expression?(code)
      flush
    end
    ["ok", nil]
  rescue Exception => e # rubocop:disable Lint/RescueException
    raise if e.is_a?(SignalException) && !e.is_a?(Interrupt)

    ["error", e]
  end

  # A fork that came to the end of the cell, and is to end as a script would.
  def leave_fork(error)
    trap("INT", "DEFAULT")
    @replies.close
    @requests.close
    warn(trace_of(error, "")) if error && !error.is_a?(SystemExit)
    exit(error.is_a?(SystemExit) ? error.status : error.nil?)
  end

  def flush
    [$stdout, $stderr, STDOUT, STDERR].each do |stream|
      stream.flush
    rescue IOError, SystemCallError, NoMethodError
      next # what the code has closed or put there
    end
  end

  def forget_interrupts
    Thread.handle_interrupt(Interrupt => :immediate) { Thread.pass } while Thread.pending_interrupt?
  rescue Interrupt
    retry
  end

  # Whether the last statement of the code is one, by itself.
  def expression?(code)
    require "ripper" unless defined?(Ripper)
    last = Ripper.sexp(code)&.dig(1, -1)
    last.nil? || !STATEMENTS.include?(last[0])
  end

  # --- errors ---

  # Sets @error, and returns the status.
  def describe(error)
    return "interrupted" if error.is_a?(Interrupt)
    return "ok" if error.is_a?(SystemExit) && error.success?

    line = line_of(error)
    message = message_of(error)
    message = "status #{error.status}" if error.is_a?(SystemExit) && message == "exit"
    texts = [bound(name_of(error.class), 1024), bound(message, MAX_TEXT), bound(trace_of(error, message), MAX_TEXT)]
    @error = [line, *texts]
    "error"
  end

  def name_of(type)
    Module.instance_method(:name).bind_call(type) || "an anonymous exception"
  end

  def message_of(error)
    text(error.message)
  rescue Exception => e # rubocop:disable Lint/RescueException
    "(its message raised #{e.class})"
  end

  def line_of(error)
    if error.is_a?(SyntaxError) && (found = message_of(error).match(/\A#{Regexp.escape(@name)}:(\d+):/))
      return found[1].to_i
    end

    (error.backtrace_locations || []).find { |location| location.path == @name }&.lineno ||
      error.backtrace.to_a.filter_map { |line| line.to_s[/\A#{Regexp.escape(@name)}:(\d+)/, 1] }.first.to_i
  end

  # As Ruby prints it, without the frames from here.
  def trace_of(error, message)
    one = error
    while one
      frames = one.backtrace&.reject { |frame| frame.start_with?("#{__FILE__}:") }
      one.set_backtrace(frames) if frames && !one.frozen?
      one = one.cause
    end
    return "#{message} (#{name_of(error.class)})" if error.backtrace.to_a.empty? # a syntax error says itself where

    text(error.full_message(highlight: false, order: :top)).chomp
  rescue Exception # rubocop:disable Lint/RescueException
    "#{@name}: #{message} (#{name_of(error.class)})"
  end

  # --- values ---

  def represent(value)
    parts = { "text/plain" => inspect_bounded(value) }
    METHODS.each do |method, mime|
      next unless answers?(value, method)

      data = value.public_send(method)
      parts[mime] = data.to_s if data
    end
    begin
      parts["application/json"] = json(value)
    rescue NotJson
      # it has none
    end
    parts
  end

  def answers?(value, method)
    Object === value && value.respond_to?(method) && value.method(method).arity.between?(-1, 0)
  rescue NameError # respond_to? without a method
    false
  end

  # The value's inspect; of what may be very large, only as much as is shown.
  def inspect_bounded(value)
    case value
    when Array then bounded_items(value, "[", "]", &:inspect) if value.instance_of?(Array)
    when Hash then bounded_items(value.keys, "{", "}") { |key| { key => value[key] }.inspect[1..-2] }
    when String then bounded_string(value)
    end || text(Object === value ? value.inspect : "#<#{Kernel.instance_method(:class).bind_call(value)}>")
  end

  def bounded_items(items, left, right)
    return if items.size <= 1000

    head = items.first(1000).map { |item| text(yield(item)) }
    tail = items.last([items.size - 1000, 1000].min).map { |item| text(yield(item)) }
    between = items.size - head.size - tail.size
    between = between.positive? ? ["… #{between} more …"] : []
    "#{left}#{[*head, *between, *tail].join(", ")}#{right}"
  end

  def bounded_string(value)
    return if value.size <= 2 * MAX_TEXT

    left = value.size - MAX_TEXT
    "#{value[0, MAX_TEXT / 2].inspect}\n… #{left} characters left out …\n#{value[-MAX_TEXT / 2, MAX_TEXT / 2].inspect}"
  end

  # In UTF-8, whatever it was in; what has no characters there as \xNN.
  def text(string)
    string = string.to_s
    string = string.encode(Encoding::UTF_8) unless [Encoding::UTF_8, Encoding::BINARY].include?(string.encoding)
    string = string.dup.force_encoding(Encoding::UTF_8)
    string.scrub { |bytes| bytes.unpack("C*").map { |byte| format('\x%02X', byte) }.join }
  rescue EncodingError
    string.dup.force_encoding(Encoding::UTF_8).scrub("\uFFFD")
  end

  # Head and tail of a text that is too long, and between them a line about the rest.
  def bound(string, limit)
    return string if string.bytesize <= limit

    head = string.byteslice(0, limit / 2).scrub("")
    tail = string.byteslice(-(limit / 2), limit / 2).scrub("")
    "#{head}\n… #{string.bytesize - head.bytesize - tail.bytesize} bytes left out …\n#{tail}"
  end

  # JSON of a value that it can hold, symbols as keys aside, without losing any of it; else NotJson.
  def json(value, depth = 0)
    raise NotJson if depth > MAX_DEPTH

    raise NotJson unless Object === value

    if value.instance_of?(Array)
      "[#{value.map { |item| json(item, depth + 1) }.join(",")}]"
    elsif value.instance_of?(Hash)
      raise NotJson if value.keys.uniq(&:to_s).size < value.size

      "{#{value.map { |key, item| "#{json_key(key)}:#{json(item, depth + 1)}" }.join(",")}}"
    else
      json_scalar(value)
    end
  end

  def json_scalar(value)
    case value
    when nil, true, false then value.nil? ? "null" : value.to_s
    when Integer then value.abs <= MAX_INTEGER ? value.to_s : raise(NotJson)
    when Float then value.finite? ? value.to_s : raise(NotJson)
    when String then value.instance_of?(String) ? json_string(value) : raise(NotJson)
    else raise NotJson
    end
  end

  def json_key(key)
    raise NotJson unless key.instance_of?(String) || key.is_a?(Symbol)

    json_string(key.to_s)
  end

  def json_string(string)
    raise NotJson unless string.valid_encoding? && (string.encoding == Encoding::UTF_8 || string.ascii_only?)

    "\"#{string.gsub(/["\\\x00-\x1f]/) { |char| char.match?(/["\\]/) ? "\\#{char}" : format('\u%04x', char.ord) }}\""
  end

  # --- replies ---

  def show(kind, representations)
    @values += 1
    representations.each do |mime, data|
      data = fit(mime, data)
      if data.is_a?(Integer)
        reply("cut #{@cell} #{@values} #{kind} #{mime} #{data}")
      else
        reply("part #{@cell} #{@values} #{kind} #{mime} #{data.bytesize}", data)
      end
    end
  end

  # The data as it is sent, or how long it is, where that is too much.
  def fit(mime, data)
    case mime
    when "text/html" then bound(text(data), MAX_HTML)
    when "image/svg+xml" then (data = text(data)).bytesize <= MAX_IMAGE ? data : data.bytesize
    when %r{\Atext/} then bound(text(data), MAX_TEXT)
    when %r{\Aimage/} then data.bytesize <= MAX_IMAGE ? data : data.bytesize
    else data.bytesize <= MAX_JSON ? data : data.bytesize
    end
  end

  def reply(header, *bodies)
    @replies.write([header, "\n", *bodies].map(&:b).join)
  end
end

# A path is that of the cell's working directory, where a cell asks.
def self.require_relative(path)
  from = caller_locations(1, 1).first
  folder = from.path.start_with?("<cell ") ? Dir.pwd : File.dirname(from.absolute_path || from.path)
  require(File.expand_path(path, folder))
end

Nsbox.instance_variable_set(:@context, Nsbox::Context.new)
Nsbox.send(:remove_const, :Context)
Nsbox.instance_variable_get(:@context).run
