require 'fileutils'
require 'tmpdir'
require 'zlib'
Dir.mktmpdir do |dir|
  FileUtils.mkdir_p("#{dir}/a/b")
  File.write("#{dir}/a/b/ä.txt", "grüße\n" * 1000, perm: 0o640)
  File.symlink('b', "#{dir}/a/link")
  puts Dir.glob('**/*', base: dir).sort.inspect, File.read("#{dir}/a/link/ä.txt").size
  puts format('%o', File.stat("#{dir}/a/b/ä.txt").mode & 0o777), Zlib.gzip('0' * 100_000).size < 500
  $dir = dir
end
puts Dir.exist?($dir)
begin
  File.write('/usr/bin/not/allowed', '')
rescue SystemCallError => e
  puts e.class
end
